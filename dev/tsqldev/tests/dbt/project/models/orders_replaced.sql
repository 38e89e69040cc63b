{{ config(materialized="incremental", incremental_strategy="delete+insert", unique_key="order_id") }}

select order_id, status, amount, [day]
from {{ ref("stg_orders") }}
{% if is_incremental() %}
where [day] > (select max([day]) from {{ this }})
{% else %}
where [day] = 1
{% endif %}
