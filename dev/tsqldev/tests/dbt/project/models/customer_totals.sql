{{ config(as_columnstore=false) }}
select
    c.customer_id,
    c.customer_name,
    count(*) as orders,
    sum(o.amount) as amount,
    max(o.ordered_at) as last_order_at,
    string_agg(cast(o.order_id as varchar(12)), ',') within group (order by o.order_id) as order_ids
from {{ ref("customers") }} as c
left join {{ ref("stg_orders") }} as o on o.customer_id = c.customer_id
group by c.customer_id, c.customer_name
