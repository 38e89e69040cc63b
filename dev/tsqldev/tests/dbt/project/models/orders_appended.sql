{{ config(materialized="incremental", incremental_strategy="append") }}

select order_id, [day] from {{ ref("stg_orders") }} where [day] = {{ var("day") }}
