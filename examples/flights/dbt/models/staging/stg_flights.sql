select
    {{ guid(["convert(varchar(19), time_hour, 126)", "carrier", "flight", "origin"]) }} as flight_key,
    datefromparts(year, month, day) as flight_date,
    time_hour,
    carrier,
    flight,
    tailnum,
    origin,
    dest,
    dep_delay,
    arr_delay,
    air_time,
    distance,
    case when dep_time is null then 1 else 0 end as cancelled
from {{ source("raw", "flights") }}
