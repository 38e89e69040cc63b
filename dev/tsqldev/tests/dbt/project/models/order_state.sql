with ranked as (
    select *, row_number() over (partition by order_id order by [day] desc) as rank_no
    from {{ ref("stg_orders") }}
)
select
    o.order_id,
    c.customer_name,
    o.status,
    o.amount,
    o.ordered_at
from ranked as o
inner join {{ ref("customers") }} as c on c.customer_id = o.customer_id
where o.rank_no = 1
