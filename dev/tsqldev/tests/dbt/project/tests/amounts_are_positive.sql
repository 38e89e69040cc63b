select order_id from {{ ref("order_state") }} where amount <= 0
