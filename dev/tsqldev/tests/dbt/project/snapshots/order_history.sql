{% snapshot order_history %}
{{ config(unique_key="order_id", strategy="check", check_cols=["status"], target_schema="snapshots") }}
select order_id, status from {{ ref("order_state") }}
{% endsnapshot %}
