"""The source half of the route on SQL Server's endpoint: every type exactly, from one snapshot, or a refusal by name."""

from __future__ import annotations

import secrets
import threading
from contextlib import closing
from decimal import Decimal
from typing import Any

import pytest

from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.drivers import Secret
from airflow_provider_dpone.drivers.mssql import MsSqlDsn
from airflow_provider_dpone.drivers.mssql_password import hashed_password
from airflow_provider_dpone.routes import mssql_source
from airflow_provider_dpone.routes.mssql_source import SnapshotRead, SourceInterrupted
from airflow_provider_dpone.routes.types import WIDE_DAYS, carry
from tests.support.live_ledger import control_dsn

#: SQL Server type, ClickHouse type, literal in T-SQL, and the value as the route reads it.
CASES: tuple[tuple[str, str, str, object], ...] = (
    ("tinyint", "UInt8", "255", 255),
    ("smallint", "Int16", "-32768", -32768),
    ("int", "Int32", "-2147483648", -(2**31)),
    ("bigint", "Int64", "9223372036854775807", 2**63 - 1),
    ("bit", "Bool", "1", 1),
    ("decimal(10,3)", "Decimal(18, 3)", "-9999999.999", Decimal("-9999999.999")),
    ("decimal(38,10)", "Decimal(38, 10)", "0.0000000001", Decimal("0.0000000001")),
    ("money", "Decimal(19, 4)", "-922337203685477.5808", Decimal("-922337203685477.5808")),
    ("real", "Float32", "1.5", 1.5),
    ("float", "Float64", "0.1", 0.1),
    ("nvarchar(max)", "String", "N'a  ä 漢 🛫 ''x'''", "a  ä 漢 🛫 'x'"),
    ("varchar(20)", "String", "'narrow  '", "narrow  "),
    ("char(4)", "String", "'ab'", "ab  "),
    ("varbinary(max)", "String", "0x00ff6100", b"\x00\xffa\x00"),
    ("binary(3)", "FixedString(3)", "0x610000", b"a\x00\x00"),
    ("uniqueidentifier", "UUID", "'6F9619FF-8B86-D011-B42D-00C04FC964FF'", "6F9619FF-8B86-D011-B42D-00C04FC964FF"),
    ("date", "Date32", "'0001-01-01'", -719162),
    ("datetime2(7)", "DateTime64(7, 'UTC')", "'2024-04-14 21:25:42.0748412'", 17131299420748412),
    ("datetime2(7)", "DateTime64(7, 'UTC')", "'0001-01-01 00:00:00.0000001'", -621355967999999999),
    ("datetime2(7)", "DateTime64(7, 'UTC')", "'9999-12-31 23:59:59.9999999'", 2534023007999999999),
    ("datetime2(0)", "DateTime64(0, 'UTC')", "'1969-12-31 23:59:59'", -10_000_000),
    ("datetime", "DateTime64(3, 'UTC')", "'2024-01-01 00:00:00.007'", 17040672000070000),
    ("smalldatetime", "DateTime64(0, 'UTC')", "'2024-01-01 00:01'", 17040672600000000),
    ("time(7)", "String", "'23:59:59.9999999'", "23:59:59.9999999"),
    ("datetimeoffset(7)", "String", "'2024-02-29 12:00:00.1234567 +05:45'", "2024-02-29 12:00:00.1234567 +05:45"),
)


@pytest.fixture
def source(tsql_server: Any, tsql_database: str) -> MsSqlDsn:
    with closing(tsql_server.connect(database=tsql_database)) as connection:
        connection.execute(f"ALTER DATABASE [{tsql_database}] SET ALLOW_SNAPSHOT_ISOLATION ON")
    return control_dsn(tsql_server.host, tsql_server.port, tsql_server.sa, tsql_server.sa_password, tsql_database)


def execute(server: Any, source: MsSqlDsn, *statements: str) -> None:
    with closing(server.connect(database=source.database)) as connection:
        for statement in statements:
            connection.execute(statement)


def a_reader(server: Any, source: MsSqlDsn, *rights: str) -> MsSqlDsn:
    """Another login of the source database, with these rights and no other."""
    name, secret = f"reader_{secrets.token_hex(4)}", Secret.generate()
    with closing(server.connect()) as connection:
        connection.execute(f"CREATE LOGIN [{name}] WITH PASSWORD = {hashed_password(secret)} HASHED")
    grants = [right.format(user=f"[{name}]") for right in rights]
    execute(server, source, f"CREATE USER [{name}] FOR LOGIN [{name}]", *grants)
    return source.for_login(name, secret)


def test_every_type_is_read_exactly_and_nulls_stay_nulls(tsql_server: Any, source: MsSqlDsn) -> None:
    declared = ", ".join(f"[c {number}] {case[0]} NULL" for number, case in enumerate(CASES))
    values = ", ".join(case[2] for case in CASES)
    execute(
        tsql_server,
        source,
        f"CREATE TABLE dbo.[every type] ({declared})",
        f"INSERT INTO dbo.[every type] VALUES ({values})",
        "INSERT INTO dbo.[every type] DEFAULT VALUES",
    )
    with SnapshotRead(source, "dbo", "every type") as read:
        columns = read.columns()
        measured = read.measure(columns)
        carriers = [
            carry(column, f"Nullable({case[1]})", WIDE_DAYS) for column, case in zip(columns, CASES, strict=True)
        ]
        [batch] = list(read.batches(carriers))
    assert measured.rows == batch.num_rows == 2
    assert measured.bytes > 150
    for index, (case, carrier) in enumerate(zip(CASES, carriers, strict=True)):
        found = batch.column(index)
        assert sorted(found.to_pylist(), key=lambda value: value is None) == [case[3], None], case
        assert carrier.prepare(found).null_count == 1


def test_all_rows_come_from_the_state_in_which_the_read_began(tsql_server: Any, source: MsSqlDsn) -> None:
    execute(tsql_server, source, "CREATE TABLE dbo.t (a int NOT NULL)", "INSERT INTO dbo.t VALUES (1), (2), (3)")
    with SnapshotRead(source, "dbo", "t") as read:
        columns = read.columns()
        assert read.measure(columns).rows == 3
        execute(tsql_server, source, "INSERT INTO dbo.t VALUES (4)", "UPDATE dbo.t SET a = 20 WHERE a = 2")
        carriers = [carry(column, "Int32") for column in columns]
        found = [value for batch in read.batches(carriers) for value in batch.column(0).to_pylist()]
    assert sorted(found) == [1, 2, 3]


def test_a_database_without_snapshot_isolation_is_refused_by_name(tsql_server: Any, source: MsSqlDsn) -> None:
    execute(tsql_server, source, f"ALTER DATABASE [{source.database}] SET ALLOW_SNAPSHOT_ISOLATION OFF")
    with pytest.raises(ConfigurationError, match="source_snapshot_isolation"), SnapshotRead(source, "dbo", "t"):
        pass


def test_a_table_that_is_not_there_is_refused_by_name(source: MsSqlDsn) -> None:
    with SnapshotRead(source, "dbo", "missing") as read, pytest.raises(ConfigurationError, match="source_table"):
        read.columns()


@pytest.mark.parametrize(
    ("rights", "reason"),
    [
        ((), "source_table"),
        (("GRANT VIEW DEFINITION ON dbo.t TO {user}",), "role_right_missing"),
        (
            ("GRANT SELECT ON SCHEMA::dbo TO {user}", "DENY SELECT ON dbo.t TO {user}"),
            "source_table|role_right_missing",
        ),
    ],
    ids=["no right at all", "sees it only", "denied"],
)
def test_a_reader_without_select_is_refused_by_name(
    tsql_server: Any, source: MsSqlDsn, rights: tuple[str, ...], reason: str
) -> None:
    execute(tsql_server, source, "CREATE TABLE dbo.t (a int NOT NULL, b int NULL)", "INSERT INTO dbo.t VALUES (1, 2)")
    poor = a_reader(tsql_server, source, *rights)
    with SnapshotRead(poor, "dbo", "t") as read, pytest.raises(ConfigurationError, match=reason) as refused:
        read.measure(read.columns())
    assert poor.user in str(refused.value) or "source_reader" in str(refused.value)


def test_rows_come_in_bounded_batches_and_a_read_can_be_interrupted(
    tsql_server: Any, source: MsSqlDsn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mssql_source, "BATCH_ROWS", 100)
    values = ", ".join(f"({number})" for number in range(950))
    execute(tsql_server, source, "CREATE TABLE dbo.t (a int NOT NULL)", f"INSERT INTO dbo.t VALUES {values}")
    with SnapshotRead(source, "dbo", "t") as read:
        carriers = [carry(column, "Int32") for column in read.columns()]
        assert [batch.num_rows for batch in read.batches(carriers)] == [100] * 9 + [50]
    with SnapshotRead(source, "dbo", "t") as read:
        carriers = [carry(column, "Int32") for column in read.columns()]
        batches = read.batches(carriers)
        next(batches)
        stopper = threading.Thread(target=read.interrupt)
        stopper.start()
        stopper.join(10)
        with pytest.raises(SourceInterrupted):
            list(batches)
