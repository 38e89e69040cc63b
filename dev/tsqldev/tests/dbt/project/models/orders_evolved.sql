{{ config(
    materialized="incremental",
    incremental_strategy="merge",
    unique_key=["order_id", "day"],
    on_schema_change="sync_all_columns",
) }}

select order_id, [day], {% if var("day") == 1 %}note{% else %}amount{% endif %}
from {{ ref("stg_orders") }}
