"""What the dbt project must have built, computed again from the raw rows, in Python and from the requirements alone."""

from __future__ import annotations

import datetime
import hashlib
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from decimal import ROUND_DOWN, Decimal
from typing import Any

Row = tuple[Any, ...]

#: The columns of raw.flights in the order in which `flights` are expected here.
FLIGHT_COLUMNS = (
    *("year", "month", "day", "dep_time", "dep_delay", "arr_delay", "carrier", "flight", "tailnum"),
    *("origin", "dest", "air_time", "distance", "time_hour"),
)


def surrogate(*parts: object) -> uuid.UUID:
    """MD5 over the parts, each followed by a bar; SQL Server reads the sixteen bytes in its mixed order."""
    text = "".join(f"{part}|" for part in parts)
    return uuid.UUID(bytes_le=hashlib.md5(text.encode("cp1252"), usedforsecurity=False).digest())


def expected_flights(
    flights: Iterable[Row], planes: Mapping[str, int | None], weather: Mapping[tuple[str, datetime.datetime], Row]
) -> Iterator[Row]:
    """Each flight with its key, its plane's year and the weather at its origin in its hour."""
    for (
        year,
        month,
        day,
        dep_time,
        dep_delay,
        arr_delay,
        carrier,
        flight,
        tailnum,
        origin,
        dest,
        air,
        miles,
        hour,
    ) in flights:
        wind_speed, visibility = weather.get((origin, hour), (None, None))
        yield (
            surrogate(hour.isoformat(), carrier, flight, origin),
            datetime.date(year, month, day),
            hour,
            carrier,
            flight,
            tailnum,
            origin,
            dest,
            dep_delay,
            arr_delay,
            air,
            miles,
            int(dep_time is None),
            planes.get(tailnum),
            wind_speed,
            visibility,
        )


def expected_delays(flights: Iterable[Row], airlines: Mapping[str, str]) -> Iterator[Row]:
    """A row a day, carrier and route. Means are truncated to two digits, as SQL Server's decimal average is cast."""
    groups: dict[tuple[datetime.date, str, str, str], list[Row]] = defaultdict(list)
    for row in flights:
        groups[row[1], row[3], row[6], row[7]].append(row)
    for (date, carrier, origin, dest), members in groups.items():
        if carrier not in airlines:
            continue
        departures = [row[8] for row in members if row[8] is not None]
        arrivals = [row[9] for row in members if row[9] is not None]
        yield (
            surrogate(date.isoformat(), carrier, origin, dest),
            date,
            carrier,
            airlines[carrier],
            origin,
            dest,
            len(members),
            sum(row[12] for row in members),
            _mean(departures),
            _mean(arrivals),
            _share(sum(delay > 15 for delay in arrivals), len(members)),
            max(arrivals, default=None),
            min(row[2] for row in members),
        )


def expected_strangers(flights: Iterable[Row], airlines: Mapping[str, str]) -> Iterator[Row]:
    """Flights of carriers that nobody knows."""
    return ((row[0], row[1], row[3], row[14]) for row in flights if row[3] not in airlines)


def _mean(values: list[int]) -> Decimal | None:
    """AVG of decimal(9,2) has the scale 6; the cast to decimal(9,2) rounds it half away from zero."""
    if not values:
        return None
    average = (Decimal(sum(values)) / len(values)).quantize(Decimal("1e-6"), ROUND_DOWN)
    return _half_up(average, 2)


def _share(part: int, whole: int) -> Decimal:
    """decimal(9,4) / decimal(9,4) is decimal(23,14) in SQL Server, truncated."""
    return (Decimal(part) / whole).quantize(Decimal("1e-14"), ROUND_DOWN)


def _half_up(value: Decimal, digits: int) -> Decimal:
    from decimal import ROUND_HALF_UP

    return value.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
