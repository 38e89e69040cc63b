{{ config(materialized="table") }}

select
    {{ guid(["convert(varchar(10), f.flight_date, 23)", "f.carrier", "f.origin", "f.dest"]) }} as delay_key,
    f.flight_date,
    f.carrier,
    a.airline,
    f.origin,
    f.dest,
    count(*) as flights,
    sum(f.cancelled) as cancelled,
    cast(avg(cast(f.dep_delay as decimal(9, 2))) as decimal(9, 2)) as mean_dep_delay,
    cast(avg(cast(f.arr_delay as decimal(9, 2))) as decimal(9, 2)) as mean_arr_delay,
    cast(sum(case when f.arr_delay > 15 then 1 else 0 end) as decimal(9, 4))
        / cast(count(*) as decimal(9, 4)) as late_share,
    max(f.arr_delay) as worst_arr_delay,
    min(f.time_hour) as first_departure_hour
from {{ ref("fct_flights") }} as f
inner join {{ ref("stg_airlines") }} as a on a.carrier = f.carrier
group by f.flight_date, f.carrier, a.airline, f.origin, f.dest
