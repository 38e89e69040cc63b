select
    tailnum,
    year as built,
    manufacturer,
    model,
    seats
from {{ source("raw", "planes") }}
