{{ config(
    contract={"enforced": true},
    as_columnstore=false,
    indexes=[{"columns": ["customer_id"], "type": "nonclustered"}],
) }}

select
    cast(order_id as int) as order_id,
    cast(max(customer_id) as int) as customer_id,
    cast(max(amount) as decimal(18, 4)) as amount
from {{ ref("stg_orders") }}
group by order_id
