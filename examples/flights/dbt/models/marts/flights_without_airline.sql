{{ config(materialized="table") }}

-- Whose carrier nobody knows: none in 2013, and readers of ClickHouse see that there is none.
select
    f.flight_key,
    f.flight_date,
    f.carrier,
    f.wind_speed
from {{ ref("fct_flights") }} as f
left join {{ ref("stg_airlines") }} as a on a.carrier = f.carrier
where a.carrier is null
