"""The content digest on the server: it depends on every value and on nothing else."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.drivers import Connection, Secret, drain, quote_mssql
from airflow_provider_dpone.drivers.mssql import MsSqlDsn, connect
from airflow_provider_dpone.drivers.mssql_password import hashed_password
from airflow_provider_dpone.routes import relation_inventory
from airflow_provider_dpone.routes.relation_inventory import ContentCheck, RelationState
from tests.support.counting_connection import Counting

SCHEMA = "odd ]'schema"

#: A type, and values that are all different for it; NULL is one of them for every type.
TYPES: dict[str, list[str]] = {
    "bit": ["0", "1"],
    "tinyint": ["0", "255"],
    "smallint": ["-1", "32767"],
    "int": ["0", "-1", "2147483647"],
    "bigint": ["-9223372036854775808", "9223372036854775807"],
    "decimal(38,10)": ["0", "0.0000000001", "-0.0000000001", "9999999999999999999999999999.9999999999"],
    "numeric(5,0)": ["-99999", "99999"],
    "money": ["0.0001", "0.0002", "-922337203685477.5808", "922337203685477.5807"],
    "smallmoney": ["0.0001", "-214748.3648"],
    "float": ["0.1E0", "0.10000000000000001E0 + 1E-17 * 1.5", "1E308", "-1E-308", "1234567890123456E0", "1234567890123457E0"],
    "real": ["0.1E0", "1E38", "16777216E0", "16777215E0"],
    "date": ["'0001-01-01'", "'9999-12-31'"],
    "time(7)": ["'00:00:00'", "'00:00:00.0000001'"],
    "smalldatetime": ["'2000-01-01T00:00:00'", "'2000-01-01T00:01:00'"],
    "datetime": ["'2000-01-01T00:00:00.000'", "'2000-01-01T00:00:00.003'", "'2000-01-01T00:00:00.007'"],
    "datetime2(7)": ["'2000-01-01T00:00:00.0000000'", "'2000-01-01T00:00:00.0000001'"],
    "datetimeoffset(7)": ["'2000-01-01T00:00:00+00:00'", "'2000-01-01T01:00:00+01:00'", "'2000-01-01T00:00:00+00:01'"],
    "char(3)": ["'a'", "'b'", "''"],
    "varchar(20)": ["''", "' '", "'a'", "'A'", "'a '", "'ä'", "'NULL'", "'0x00'"],
    "varchar(max)": ["''", "'a'", "REPLICATE(CONVERT(varchar(max), 'x'), 9000)", "REPLICATE(CONVERT(varchar(max), 'x'), 9001)"],
    "nchar(3)": ["N'a'", "N'Ж'", "N''"],
    "nvarchar(20)": ["N''", "N'a'", "N'A'", "N'Ж'", "N'Ⅷ'", "N'😀'", "N'😁'", "N'ä'"],
    "nvarchar(max)": ["N''", "REPLICATE(CONVERT(nvarchar(max), N'Ж'), 5000)", "REPLICATE(CONVERT(nvarchar(max), N'Ж'), 5001)"],
    "varchar(20) COLLATE Latin1_General_100_CI_AS_SC_UTF8": ["N'a'", "N'Ж'", "N'Ѐ'", "N'😀'"],
    "text": ["''", "'a'", "'b'"],
    "ntext": ["N''", "N'Ж'", "N'З'"],
    "binary(3)": ["0x000000", "0x010000", "0x000001"],
    "varbinary(20)": ["0x", "0x00", "0x0000", "0x01"],
    "varbinary(max)": ["0x", "0x00", "0x01"],
    "image": ["0x", "0x00", "0x01"],
    "uniqueidentifier": ["'00000000-0000-0000-0000-000000000000'", "'00000000-0000-0000-0000-000000000001'"],
}  # fmt: skip


class Place:
    """A database of its own with one schema."""

    def __init__(self, dsn: MsSqlDsn) -> None:
        self.dsn = dsn
        self.connection: Connection = connect(dsn)
        self.run(f"CREATE SCHEMA {quote_mssql(SCHEMA)};")

    def run(self, sql: str) -> None:
        drain(self.connection, sql)
        self.connection.commit()

    def table(self, columns: str, *rows: str) -> str:
        name = f"t ]'{secrets.token_hex(4)}"
        self.run(f"CREATE TABLE {quote_mssql(SCHEMA, name)} ({columns});")
        self.insert(name, *rows)
        return name

    def insert(self, name: str, *rows: str) -> None:
        for row in rows:
            self.run(f"INSERT INTO {quote_mssql(SCHEMA, name)} VALUES ({row});")

    def observe(self, *names: str, content: ContentCheck = "digest", settings: str = "") -> list[RelationState]:
        def observer() -> Connection:
            connection = connect(self.dsn)
            if settings:
                drain(connection, settings)
            return connection

        wanted = [(SCHEMA, name) for name in names]
        found = relation_inventory.observe(observer, self.dsn.database, wanted, content=content)
        return [found[f"{SCHEMA}.{name}".lower()] for name in names]

    def digest(self, name: str, settings: str = "") -> str:
        return str(self.observe(name, settings=settings)[0]["content_sha256"])


@pytest.fixture(scope="module")
def place(tsql_server: Any) -> Iterator[Place]:
    database = f"content_{secrets.token_hex(4)}"
    made = tsql_server.connect()
    made.cursor().execute(f"CREATE DATABASE {quote_mssql(database)} COLLATE SQL_Latin1_General_CP1_CI_AS;")
    made.close()
    place = Place(
        MsSqlDsn(
            host=tsql_server.host,
            port=tsql_server.port,
            database=database,
            user=tsql_server.sa,
            password=Secret(tsql_server.sa_password),
            trust_server_certificate=True,
        )
    )
    yield place
    place.connection.close()


@pytest.mark.parametrize("kind", TYPES)
def test_every_value_of_every_type_counts(place: Place, kind: str) -> None:
    name = place.table(f"[v] {kind} NULL")
    digests = {"no row": place.digest(name)}
    for value in ["NULL", *TYPES[kind]]:
        place.run(f"DELETE FROM {quote_mssql(SCHEMA, name)};")
        place.insert(name, value)
        digests[value] = place.digest(name)
    assert len(set(digests.values())) == len(digests), digests
    assert place.observe(name)[0]["unchecked"] == {}
    place.run(f"DROP TABLE {quote_mssql(SCHEMA, name)};")


def test_a_row_that_changes_in_place_is_seen(place: Place) -> None:
    name = place.table("[id] int NOT NULL, [v] nvarchar(9) NULL", "1, N'a'", "2, NULL")
    (before,) = place.observe(name)
    place.run(f"UPDATE {quote_mssql(SCHEMA, name)} SET [v] = N'' WHERE [id] = 2;")
    (after,) = place.observe(name)
    assert (before["rows"], before["modified"]) == (after["rows"], after["modified"])
    key = f"{SCHEMA}.{name}".lower()
    assert relation_inventory.changes({key: before}, {key: after}, [(SCHEMA, name)]) == {key: "content_changed"}


def test_the_order_of_the_rows_does_not_count(place: Place) -> None:
    one = place.table("[id] int, [v] varchar(9)", "1, 'a'", "2, 'b'", "3, NULL")
    other = place.table("[id] int, [v] varchar(9)", "3, NULL", "1, 'a'", "2, 'b'")
    assert place.digest(one) == place.digest(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["'a', 'bc'"], ["'ab', 'c'"]),
        (["'a', NULL"], ["NULL, 'a'"]),
        (["'', NULL"], ["NULL, ''"]),
        (["'a', 'b'", "'c', 'd'"], ["'a', 'd'", "'c', 'b'"]),
        (["'a', 'a'", "'b', 'b'"], ["'b', 'a'", "'a', 'b'"]),
        (["'a', 'a'", "'a', 'a'", "'b', 'b'"], ["'a', 'a'", "'b', 'b'", "'b', 'b'"]),
        (["'a', 'a'"] * 2, ["'a', 'a'"] * 4),
    ],
)
def test_values_that_move_between_columns_and_rows_are_seen(place: Place, one: list[str], other: list[str]) -> None:
    columns = "[a] varchar(9) NULL, [b] varchar(9) NULL"
    assert place.digest(place.table(columns, *one)) != place.digest(place.table(columns, *other))


def test_the_types_of_the_columns_count(place: Place) -> None:
    assert place.digest(place.table("[v] int", "1")) != place.digest(place.table("[v] bigint", "1"))
    assert place.digest(place.table("[v] int", "1")) != place.digest(place.table("[w] int", "1"))


def test_no_setting_of_the_session_counts(place: Place, tsql_server: Any) -> None:
    name = place.table(
        "[a] datetime2(3), [b] datetime, [c] float, [d] money, [e] date, [f] datetimeoffset, [g] nvarchar(9)",
        "'2013-05-04T03:02:01.123', '2013-05-04T03:02:01.123', 0.1, 1234.5, '2013-05-04', '2013-05-04T03:02:01+02:00',"
        " N'ä'",
    )
    plain = place.digest(name)
    settings = ["SET ARITHABORT OFF;", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE;"]
    if not tsql_server.emulation:
        # The emulation refuses these by name.
        settings += ["SET DATEFORMAT dmy;", "SET DATEFIRST 3;", "SET LANGUAGE German;", "SET TEXTSIZE 2;"]
    assert {setting: place.digest(name, setting) for setting in settings} == dict.fromkeys(settings, plain)


def test_a_row_wider_than_a_page_is_hashed_to_its_end(place: Place) -> None:
    columns = ", ".join(f"[{letter}] char(3000) NULL" for letter in "abc")
    assert place.digest(place.table(columns, "'x', 'y', 'z'")) != place.digest(place.table(columns, "'x', 'y', 'w'"))


def test_what_has_no_exact_bytes_is_named(place: Place) -> None:
    name = place.table("[id] int NOT NULL, [doc] xml NULL, [twice] AS [id] * 2")
    place.run(f"INSERT INTO {quote_mssql(SCHEMA, name)} ([id], [doc]) VALUES (1, '<a/>');")
    (state,) = place.observe(name)
    assert state["unchecked"] == {"doc": "type xml", "twice": "computed"}
    key = f"{SCHEMA}.{name}".lower()
    assert relation_inventory.changes({key: state}, {key: state}, [(SCHEMA, name)]) == {key: "content_unchecked"}


def test_a_view_is_known_by_its_text(place: Place) -> None:
    view = quote_mssql(SCHEMA, "a view")
    place.run(f"CREATE VIEW {view} AS SELECT 1 AS [a];")
    one = place.digest("a view")
    place.run(f"ALTER VIEW {view} AS SELECT 2 AS [a];")
    assert place.digest("a view") != one


def test_counting_names_every_table_as_unchecked(place: Place) -> None:
    name = place.table("[id] int", "1", "2")
    (state,) = place.observe(name, content="count")
    assert (state["rows"], state["content_sha256"], state["unchecked"]) == (2, None, {"*": "only counted"})


def test_one_statement_a_table_and_two_for_all(place: Place) -> None:
    names = [(SCHEMA, place.table("[id] int", "1")) for _ in range(3)]
    counting = Counting(lambda: connect(place.dsn))
    relation_inventory.observe(counting, place.dsn.database, names, content="digest")
    assert (counting.connections, len(counting.batches)) == (1, 2 + 3)


def test_a_table_of_a_thousand_columns_is_hashed_to_its_last_one(place: Place) -> None:
    kinds = ("int", "varchar(40)", "decimal(9,2)", "datetime2(7)")
    name = place.table(", ".join(f"[c{number}] {kinds[number % 4]} NULL" for number in range(1000)))
    table = quote_mssql(SCHEMA, name)
    place.run(f"INSERT INTO {table} ([c0]) VALUES (1);")
    before = place.digest(name)
    place.run(f"UPDATE {table} SET [c999] = '2000-01-01T00:00:00';")
    assert place.digest(name) != before


def test_an_observer_that_does_not_see_all_concludes_nothing(place: Place) -> None:
    """Otherwise a table that it may not see was never built, and an append to it is repeated."""
    name, secret = place.table("[id] int", "1"), Secret.generate()
    reader = quote_mssql(f"reader ]'{secrets.token_hex(4)}")
    dsn = replace(place.dsn, user=reader[1:-1].replace("]]", "]"), password=secret)
    place.run(f"CREATE LOGIN {reader} WITH PASSWORD = {hashed_password(secret)} HASHED, CHECK_POLICY = OFF;")
    try:
        place.run(f"CREATE USER {reader} FOR LOGIN {reader};")
        for grant in ("", f"GRANT SELECT ON SCHEMA::{quote_mssql(SCHEMA)} TO {reader};"):
            if grant:
                place.run(grant)
            with pytest.raises(ConfigurationError, match="observer_visibility"):
                relation_inventory.observe(lambda: connect(dsn), dsn.database, [(SCHEMA, name)], content="digest")
        place.run(f"GRANT VIEW DEFINITION TO {reader};")
        seen = relation_inventory.observe(lambda: connect(dsn), dsn.database, [(SCHEMA, name)], content="digest")
        assert seen[f"{SCHEMA}.{name}".lower()] == place.observe(name)[0]
    finally:
        place.run(f"DROP LOGIN {reader};")


def test_a_relation_is_found_under_every_name_that_the_server_takes_for_it(place: Place) -> None:
    place.run(f"CREATE TABLE {quote_mssql(SCHEMA, 'Orders')} ([id] int);")
    for schema, name in ((SCHEMA, "ORDERS"), (SCHEMA.upper(), "orders  "), (f"{SCHEMA} ", "Orders ")):
        place.run(f"SELECT * FROM {quote_mssql(schema, name)};")
        found = relation_inventory.observe(
            lambda: connect(place.dsn), place.dsn.database, [(schema, name)], content="digest"
        )
        assert list(found) == [relation_inventory.relation_key(SCHEMA, "Orders")]
