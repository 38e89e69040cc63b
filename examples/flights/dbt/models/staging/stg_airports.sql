select
    faa,
    name as airport,
    lat,
    lon,
    tzone
from {{ source("raw", "airports") }}
