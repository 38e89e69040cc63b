"""PostgreSQL to SQL Server through whole attempts: what arrives, what is refused, and what a killed worker leaves."""

from __future__ import annotations

import datetime
import secrets
import uuid
from decimal import Decimal
from typing import Any

import pytest

from airflow_provider_dpone.contracts.errors import AttemptFailed, ConfigurationError, Fenced, GuardError, ValueRefused
from airflow_provider_dpone.drivers import quote_mssql, quote_postgres
from airflow_provider_dpone.gates import target_fence
from airflow_provider_dpone.routes.postgres_to_mssql import SourceRows
from tests.support.live_gate import SCHEMA
from tests.support.live_routes import LiveTransfer, reached, start_worker, transfer_document

PLANES = [(number, f"N{number}", None if number % 3 else Decimal("1.50")) for number in range(1, 21)]
OLD = [(0, "old", None)]


@pytest.fixture
def planes(transfer: LiveTransfer) -> str:
    """A source with twenty rows and a target with one old row, both of one new name."""
    name = f"planes_{secrets.token_hex(3)}"
    transfer.as_owner(f"CREATE TABLE {name} (id int NOT NULL, tail text NOT NULL, speed numeric)")
    transfer.as_owner(f"INSERT INTO {name} VALUES (%s, %s, %s)", PLANES)
    transfer.in_target(
        f"CREATE TABLE [raw].[{name}] ([id] int NOT NULL, [tail] nvarchar(10) NOT NULL, [speed] decimal(9, 2) NULL);"
        f" INSERT INTO [raw].[{name}] VALUES (0, N'old', NULL);"
    )
    return name


def exactly(row: tuple[Any, ...]) -> str:
    """Every bit of a row as text, trailing zeros of decimals aside."""
    return repr([value.normalize() if isinstance(value, Decimal) else value for value in row])


def failed(transfer: LiveTransfer, plan: Any, run_id: str | None = None) -> BaseException | None:
    """Run one try that must be proven FAILED, with its login gone; returns what its work raised."""
    run_id = run_id or transfer.gate.run_id()
    with pytest.raises(AttemptFailed) as ended:
        transfer.gate.attempt(run_id, route=transfer.route(plan)).run()
    (operation,) = transfer.gate.attempts.find("dag", run_id, "load", -1)
    assert operation.state == "FAILED"
    assert transfer.gone(operation)
    return ended.value.__cause__


def test_the_target_holds_what_the_source_held(transfer: LiveTransfer, planes: str) -> None:
    result = transfer.gate.attempt(transfer.gate.run_id(), route=transfer.route(transfer.plan(planes))).run()
    assert result.operation.state == "SUCCEEDED"
    assert result.report is not None
    assert result.report.rows == len(PLANES)
    assert transfer.rows(planes) == PLANES
    assert not [name for name in transfer.tables() if "__dpone_" in name]
    assert transfer.gone(result.operation)


def test_an_empty_source_empties_the_target(transfer: LiveTransfer, planes: str) -> None:
    transfer.as_owner(f"DELETE FROM {planes}")
    assert transfer.gate.attempt(transfer.gate.run_id(), route=transfer.route(transfer.plan(planes))).run()
    assert transfer.rows(planes) == []


def test_rows_that_a_policy_keeps_from_the_attempt_are_not_taken_for_rows_that_are_not_there(
    transfer: LiveTransfer, planes: str
) -> None:
    transfer.as_owner(f"CREATE POLICY fast ON {planes} USING (speed IS NOT NULL)")
    transfer.as_owner(f"ALTER TABLE {planes} ENABLE ROW LEVEL SECURITY")
    cause = failed(transfer, transfer.plan(planes))
    assert isinstance(cause, ConfigurationError) and "row-level security" in str(cause)
    assert transfer.rows(planes) == OLD


def test_every_carried_type_arrives_exactly(transfer: LiveTransfer) -> None:
    columns = {
        "a": ("int2", "tinyint", [0, 255]),
        "b": ("int8", "bigint", [-(2**63), 2**63 - 1]),
        "c": ("numeric", "decimal(38, 10)", [Decimal("-1234567890123456789012345678.0123456789"), Decimal(0)]),
        "d": ("float8", "float", [-0.0, 5e-324]),
        "e": ("float4", "real", [1.5, -3.4028234663852886e38]),
        "f": ("text", "nvarchar(max)", ["", "Ð\U0001f6eb 'x'\n\t "]),
        "g": ("varchar", "varchar(20)", ["déjà €", "trailing  "]),
        "h": ("bytea", "varbinary(max)", [b"", bytes(range(256))]),
        "i": ("bool", "bit", [True, False]),
        "j": ("uuid", "uniqueidentifier", [uuid.UUID(int=1), uuid.UUID(int=2**128 - 1)]),
        "k": ("date", "date", [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]),
        "l": (
            "timestamp",
            "datetime2(7)",
            [datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)],  # without zone
        ),
        "m": ("time", "time(7)", [datetime.time(0), datetime.time(23, 59, 59, 999999)]),
        "n": ("timestamptz", "datetimeoffset(6)", [datetime.datetime(2024, 2, 29, 12, 0, 0, 1, datetime.UTC)] * 2),
    }
    name = f"types_{secrets.token_hex(3)}"
    transfer.as_owner(f"CREATE TABLE {name} (" + ", ".join(f"{c} {t[0]}" for c, t in columns.items()) + ")")
    rows = [tuple(t[2][number] for t in columns.values()) for number in (0, 1)] + [(None,) * len(columns)]
    transfer.as_owner(f"INSERT INTO {name} VALUES ({', '.join(['%s'] * len(columns))})", rows)
    transfer.in_target(
        f"CREATE TABLE [raw].[{name}] (" + ", ".join(f"[{c}] {t[1]} NULL" for c, t in columns.items()) + ");"
    )
    transfer.gate.attempt(transfer.gate.run_id(), route=transfer.route(transfer.plan(name))).run()
    found = transfer.in_target(f"SELECT * FROM [raw].[{name}];")
    assert sorted(map(exactly, found)) == sorted(map(exactly, rows))


@pytest.mark.parametrize(
    ("source_type", "literal", "target_type"),
    [
        ("numeric", "'1.005'", "decimal(9, 2)"),
        ("int8", "2147483648", "int"),
        ("text", "'12345678901'", "nvarchar(10)"),
        ("text", "'Ж'", "varchar(10)"),
        ("float8", "'NaN'", "float"),
        ("numeric", "'Infinity'", "decimal(9, 2)"),
        ("int4", "NULL", "int NOT NULL"),
        # What no Python value stands for.
        ("date", "'infinity'", "date"),
        ("date", "'0044-03-15 BC'", "date"),
        ("timestamp", "'-infinity'", "datetime2(7)"),
        ("timestamptz", "'10000-01-01 00:00:00+00'", "datetimeoffset(7)"),
        ("time", "'24:00:00'", "time(7)"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_and_changes_nothing(
    transfer: LiveTransfer, source_type: str, literal: str, target_type: str
) -> None:
    name = f"refused_{secrets.token_hex(3)}"
    nullable = "" if "NULL" in target_type else " NULL"
    transfer.as_owner(f"CREATE TABLE {name} (id int, v {source_type})")
    transfer.as_owner(f"INSERT INTO {name} SELECT g, {literal} FROM generate_series(1, 3) AS g")
    transfer.in_target(f"CREATE TABLE [raw].[{name}] ([id] int NOT NULL, [v] {target_type}{nullable});")
    if nullable:
        transfer.in_target(f"INSERT INTO [raw].[{name}] VALUES (0, NULL);")
    before = transfer.rows(name)
    cause = failed(transfer, transfer.plan(name))
    assert isinstance(cause, ValueRefused), repr(cause)
    assert transfer.rows(name) == before


def test_a_target_column_of_another_code_page_is_refused(transfer: LiveTransfer) -> None:
    """An é would become a ? in a column whose code page has none."""
    name = f"cyrillic_{secrets.token_hex(3)}"
    transfer.as_owner(f"CREATE TABLE {name} (v text)")
    transfer.as_owner(f"INSERT INTO {name} VALUES ('é')")
    transfer.in_target(f"CREATE TABLE [raw].[{name}] ([v] varchar(10) COLLATE Cyrillic_General_CI_AS NULL);")
    cause = failed(transfer, transfer.plan(name))
    assert isinstance(cause, GuardError), repr(cause)
    assert transfer.rows(name) == []


@pytest.mark.parametrize(
    "trouble", ["no_table", "no_select", "no_usage", "no_column", "writable", "no_database", "no_server", "no_target"]
)
def test_a_source_or_target_that_is_not_there_is_one_typed_error(
    transfer: LiveTransfer, planes: str, trouble: str
) -> None:
    from dataclasses import replace

    plan = transfer.plan(planes)
    if trouble == "no_table":
        plan = transfer.plan("nowhere", planes)
    elif trouble == "no_select":
        transfer.as_owner(f"REVOKE SELECT ON {planes} FROM {quote_postgres(transfer.postgres.source_role)}")
    elif trouble == "no_usage":
        transfer.as_owner(f"CREATE SCHEMA s_{planes}")
        transfer.as_owner(f"CREATE TABLE s_{planes}.t AS SELECT * FROM {planes}")
        plan = transfer.plan("t", planes, schema=f"s_{planes}")
    elif trouble == "no_column":
        transfer.as_owner(f"ALTER TABLE {planes} RENAME COLUMN tail TO tails")
    elif trouble == "writable":
        transfer.as_owner(f"GRANT DELETE ON {planes} TO {quote_postgres(transfer.postgres.source_role)}")
    elif trouble == "no_database":
        plan = replace(plan, source=replace(plan.source, database="nowhere"))
    elif trouble == "no_server":
        plan = replace(plan, source=replace(plan.source, port=1))
    elif trouble == "no_target":
        plan = transfer.plan(planes, "nowhere")
    cause = failed(transfer, plan)
    assert isinstance(cause, GuardError), repr(cause)
    assert transfer.postgres.issuer.password.reveal() not in f"{cause} {cause.__cause__}"
    assert transfer.rows(planes) == OLD
    transfer.as_owner(f"DROP TABLE {planes}")


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("pläne ]'\";%--", "Pläne ]'\";%--"),
        ("a b", "a" * 128),
        ("Über", "\U0001f6eb" * 64),
        ("q", "??{{columns}}__dpone_"),
    ],
)
def test_hostile_names(transfer: LiveTransfer, source: str, target: str) -> None:
    odd = "co]l\"umn 'x';--%s ?"
    transfer.as_owner(
        f"CREATE TABLE {quote_postgres(source)} ({quote_postgres(odd).replace('%', '%%')} int)".replace("%%", "%")
    )
    transfer.as_owner(f"INSERT INTO {quote_postgres(source)} VALUES (7)")
    transfer.in_target(f"CREATE TABLE {quote_mssql(SCHEMA, target)} ({quote_mssql(odd)} int NOT NULL);")
    try:
        transfer.gate.attempt(transfer.gate.run_id(), route=transfer.route(transfer.plan(source, target))).run()
        assert transfer.rows(target) == [(7,)]
        assert len(transfer.tables() & {target}) == 1
    finally:
        transfer.in_target(f"DROP TABLE {quote_mssql(SCHEMA, target)};")


def test_a_table_of_somebody_else_is_not_taken_for_left_staging(transfer: LiveTransfer, planes: str) -> None:
    theirs = f"{planes}__dpone_archive"
    transfer.in_target(f"CREATE TABLE [raw].[{theirs}] ([a] int NOT NULL);")
    transfer.gate.attempt(transfer.gate.run_id(), route=transfer.route(transfer.plan(planes))).run()
    assert theirs in transfer.tables()


BEFORE_COMMIT = ("admitted", "recorded", "issued", "staging", "staged", "fenced", "marked")
AFTER_COMMIT = ("committed", "reported", "closed", "quiescent", "resolved")


@pytest.mark.parametrize("step", BEFORE_COMMIT + AFTER_COMMIT)
def test_a_killed_worker_is_settled_from_the_marker_and_retried(transfer: LiveTransfer, planes: str, step: str) -> None:
    run_id, plan = transfer.gate.run_id(), transfer.plan(planes)
    worker = start_worker(transfer.gate, run_id, step, transfer_document(transfer, plan))
    try:
        assert reached(worker) == step
    finally:
        worker.kill()
        worker.wait()
    second = transfer.gate.attempt(run_id, 2, route=transfer.route(plan)).run().operation
    first, _ = transfer.gate.attempts.find("dag", run_id, "load", -1)
    assert first.state == ("FAILED" if step in BEFORE_COMMIT else "SUCCEEDED")
    assert second.state == "SUCCEEDED"
    assert transfer.rows(planes) == PLANES
    left = [name for name in transfer.tables() if name.startswith(f"{planes}__dpone_")]
    assert not left, "a staging table was left"
    assert transfer.gone(first)
    assert transfer.gone(second)


def test_a_fence_that_moved_on_refuses_the_old_writer(
    transfer: LiveTransfer, planes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = target_fence.hold

    def moved_on(connection: Any, key: str) -> None:
        transfer.take_fence()
        hold(connection, key)

    monkeypatch.setattr(target_fence, "hold", moved_on)
    assert isinstance(failed(transfer, transfer.plan(planes)), Fenced)
    assert transfer.rows(planes) == OLD


def test_a_constraint_of_the_target_that_refuses_one_row_keeps_the_old_rows(
    transfer: LiveTransfer, planes: str
) -> None:
    transfer.in_target(f"ALTER TABLE [raw].[{planes}] ADD CONSTRAINT [ck_{planes}] CHECK ([id] < 20);")
    failed(transfer, transfer.plan(planes))
    assert transfer.rows(planes) == OLD


class Killed(BaseException):
    """What Airflow raises into a task that timed out is no Exception either."""


@pytest.mark.parametrize("row", [1, 7])
def test_an_interrupt_between_two_rows_is_not_the_end_of_the_rows(
    transfer: LiveTransfer, planes: str, monkeypatch: pytest.MonkeyPatch, row: int
) -> None:
    """Four tries of one run, each ended by another kind of interrupt, and a fifth one that is let alone."""
    counted = SourceRows._counted
    interrupts = (KeyboardInterrupt, SystemExit, Killed, StopIteration)
    run_id, route = transfer.gate.run_id(), transfer.route(transfer.plan(planes))
    for number, interrupt in enumerate(interrupts, start=1):

        def interrupted(source: SourceRows, *args: Any, interrupt: type[BaseException] = interrupt) -> tuple[Any, ...]:
            if source.count == row:
                raise interrupt
            return counted(source, *args)

        monkeypatch.setattr(SourceRows, "_counted", interrupted)
        with pytest.raises((interrupt, AttemptFailed)):
            transfer.gate.attempt(run_id, number, route=route).run()
        assert transfer.rows(planes) == OLD, interrupt
    monkeypatch.undo()
    transfer.gate.attempt(run_id, len(interrupts) + 1, route=route).run()
    tries = transfer.gate.attempts.find("dag", run_id, "load", -1)
    assert [operation.state for operation in tries] == ["FAILED"] * len(interrupts) + ["SUCCEEDED"]
    assert transfer.rows(planes) == PLANES
