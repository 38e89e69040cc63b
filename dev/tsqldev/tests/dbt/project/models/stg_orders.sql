{{ config(materialized="view") }}

select
    order_id,
    customer_id,
    [day],
    upper(status) as status,
    amount,
    ordered_at,
    nullif(note, '') as note
from {{ ref("orders") }}
where [day] <= {{ var("day") }}
