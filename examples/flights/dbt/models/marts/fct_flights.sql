{{ config(materialized="incremental", unique_key="flight_key", incremental_strategy="delete+insert") }}

select
    f.flight_key,
    f.flight_date,
    f.time_hour,
    f.carrier,
    f.flight,
    f.tailnum,
    f.origin,
    f.dest,
    f.dep_delay,
    f.arr_delay,
    f.air_time,
    f.distance,
    f.cancelled,
    p.built as plane_built,
    w.wind_speed,
    w.visib
from {{ ref("stg_flights") }} as f
left join {{ ref("stg_planes") }} as p on p.tailnum = f.tailnum
left join {{ ref("stg_weather") }} as w on w.origin = f.origin and w.time_hour = f.time_hour
{% if is_incremental() %}
where f.flight_date >= (select dateadd(day, -3, max(flight_date)) from {{ this }})
{% endif %}
