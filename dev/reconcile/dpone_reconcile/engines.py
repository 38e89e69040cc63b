"""Reading the three engines: rows as Python values of the column's own type."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import httpx
import psycopg
import pymssql

Row = tuple[Any, ...]
_BATCH = 5000


class SqlServer:
    """One login on one instance, through FreeTDS."""

    def __init__(self, *, host: str, port: int, user: str, password: str, database: str) -> None:
        self._connection: Any = pymssql.connect(
            server=host,
            port=str(port),
            user=user,
            password=password,
            database=database,
            tds_version="7.4",
            autocommit=True,
        )

    def rows(self, query: str, parameters: Sequence[object] = ()) -> Iterator[Row]:
        cursor = self._connection.cursor()
        cursor.execute(query, tuple(parameters))
        while batch := cursor.fetchmany(_BATCH):
            for row in batch:
                yield tuple(row)
        cursor.close()

    def close(self) -> None:
        self._connection.close()


class Postgres:
    def __init__(self, *, host: str, port: int, user: str, password: str, database: str) -> None:
        self._connection = psycopg.connect(
            host=host, port=port, user=user, password=password, dbname=database, autocommit=True
        )

    def rows(self, query: str, parameters: Sequence[object] = ()) -> Iterator[Row]:
        with self._connection.cursor() as cursor:
            cursor.execute(query.encode(), tuple(parameters) or None)
            while batch := cursor.fetchmany(_BATCH):
                yield from batch

    def close(self) -> None:
        self._connection.close()


class ClickHouse:
    """The HTTP interface, rows as JSONCompactStringsEachRowWithNamesAndTypes would lose NULL: TSV keeps it as \\N."""

    def __init__(self, *, host: str, port: int, user: str, password: str) -> None:
        self._client = httpx.Client(
            base_url=f"http://{host}:{port}",
            headers={"X-ClickHouse-User": user, "X-ClickHouse-Key": password},
            # Without it 10.00 is written as 10, and a lost scale could not be told from a kept one.
            params={"output_format_decimal_trailing_zeros": 1},
            timeout=300,
        )

    def rows(self, query: str, parameters: Mapping[str, str] | None = None) -> Iterator[Row]:
        """The result's own header names the types; every type that the demo does not have is refused."""
        content = f"{query} FORMAT TabSeparatedWithNamesAndTypes"
        given = {f"param_{name}": value for name, value in (parameters or {}).items()}
        with self._client.stream("POST", "/", content=content, params=given) as response:
            if response.status_code != 200:
                raise RuntimeError(f"ClickHouse refused a query: {response.read().decode()[:500]}")
            lines = _lines(response.iter_bytes())
            next(lines)
            parsers = [_parser(_unescape(kind)) for kind in next(lines).split("\t")]
            for line in lines:
                yield tuple(parse(text) for parse, text in zip(parsers, line.split("\t"), strict=True))

    def close(self) -> None:
        self._client.close()


def bracketed(name: str) -> str:
    """A name as SQL Server reads it."""
    return f"[{name.replace(']', ']]')}]"


def backticked(name: str) -> str:
    """A name as ClickHouse reads it."""
    escaped = name.replace("\\", "\\\\").replace("`", "\\`")
    return f"`{escaped}`"


def _lines(chunks: Iterator[bytes]) -> Iterator[str]:
    """Ended by LF alone: a text may hold every other character that ends a line somewhere."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line.decode() for line in whole)
    if rest:
        yield rest.decode()


def _parser(kind: str) -> Callable[[str], Any]:
    if kind.startswith("Nullable("):
        inner = _parser(kind[len("Nullable(") : -1])
        return lambda text: None if text == "\\N" else inner(text)
    if kind.startswith("LowCardinality("):
        return _parser(kind[len("LowCardinality(") : -1])
    for prefix, parse in _PARSERS.items():
        if kind == prefix or kind.startswith(prefix + "("):
            return parse
    raise RuntimeError(f"ClickHouse answered the type {kind}, which this program does not read")


def _unescape(text: str) -> str:
    out: list[str] = []
    position = 0
    while position < len(text):
        if text[position] == "\\":
            out.append(_ESCAPES.get(text[position + 1], text[position + 1]))
            position += 2
        else:
            out.append(text[position])
            position += 1
    return "".join(out)


_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "b": "\b", "f": "\f", "0": "\0", "'": "'", "\\": "\\"}


def _text(text: str) -> str:
    return _unescape(text) if "\\" in text else text


_PARSERS: Mapping[str, Callable[[str], Any]] = {
    "Int8": int,
    "Int16": int,
    "Int32": int,
    "Int64": int,
    "UInt8": int,
    "UInt64": int,
    "Decimal": Decimal,
    "String": _text,
    "FixedString": _text,
    "UUID": uuid.UUID,
    "Date": datetime.date.fromisoformat,
    "Date32": datetime.date.fromisoformat,
    "DateTime64": datetime.datetime.fromisoformat,
    "DateTime": datetime.datetime.fromisoformat,
    "Bool": lambda text: text == "true",
}
