"""The reconciler finds out what it is there for: on the main job's own targets, each spoiled by a DBA and mended again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from dpone_demo import provisioning
from dpone_demo.loading import RAW
from dpone_embedded import Stack
from dpone_reconcile import checks, schemas, state
from dpone_reconcile.check import Check
from dpone_reconcile.engines import ClickHouse, SqlServer
from dpone_reconcile.ledger import AttemptRow, read_attempts

from airflow_provider_dpone.drivers import drain
from airflow_provider_dpone.drivers.clickhouse import connect as connect_clickhouse
from tests.e2e.conftest import MainJob

pytestmark = pytest.mark.timeout(1500)
DATABASE = provisioning.ANALYTICS


@dataclass(frozen=True, kw_only=True)
class Scene:
    """The three databases of the witness, the attempts of the main job, and a DBA's hands."""

    stack: Stack
    control: SqlServer
    warehouse: SqlServer
    clickhouse: ClickHouse
    attempts: tuple[AttemptRow, ...]
    planted: list[dict[str, str]]

    def in_sql_server(self, statement: str) -> None:
        with provisioning._as_dba(self.stack, provisioning.WAREHOUSE, autocommit=True) as connection:
            drain(connection, statement)

    def in_clickhouse(self, statement: str) -> None:
        access, _ = provisioning.guard_services(self.stack, self.stack.state.path).require_clickhouse()
        with closing(connect_clickhouse(access)) as client:
            client.command(statement)

    def vanished(self) -> Check:
        return checks.vanished(self.planted, self.warehouse, self.clickhouse)

    def source_bytes(self) -> Check:
        return state.source_bytes(self.control, self.warehouse, self.attempts)

    def markers(self) -> Check:
        return state.markers(self.warehouse, self.attempts)

    def published_tables(self) -> Check:
        return state.published_tables(self.control, self.clickhouse, self.attempts)

    def guards(self) -> Check:
        return state.guards(self.control, self.attempts)

    def column_types(self) -> Check:
        table = "flights_without_airline"
        source = schemas.sql_server_columns(self.warehouse, "marts", table)
        return schemas.published("types", source, schemas.clickhouse_columns(self.clickhouse, DATABASE, table))


@pytest.fixture(scope="module")
def scene(run: MainJob) -> Iterator[Scene]:
    stack = Stack(run.state)
    addresses = provisioning.reconciler_addresses(stack)
    server = {name: addresses["sqlserver"][name] for name in ("host", "port", "user", "password")}
    target: dict[str, Any] = {name: addresses["clickhouse"][name] for name in ("host", "port", "user", "password")}
    runs = {tuple(attempt["coordinates"][:2]) for attempt in run.report()["attempts"]}
    with (
        closing(SqlServer(**server, database=provisioning.CONTROL)) as control,
        closing(SqlServer(**server, database=provisioning.WAREHOUSE)) as warehouse,
        closing(ClickHouse(**target)) as clickhouse,
    ):
        attempts = tuple(each for each in read_attempts(control) if (each.dag_id, each.run_id) in runs)
        yield Scene(
            stack=stack,
            control=control,
            warehouse=warehouse,
            clickhouse=clickhouse,
            attempts=attempts,
            planted=addresses["planted"],
        )


_SPOILED = {
    "a planted row in SQL Server": (
        Scene.vanished,
        "N00000 is still in raw.retirements of sqlserver",
        lambda scene: scene.in_sql_server(
            f"INSERT INTO [{RAW}].[retirements] ([tailnum], [retired_on], [book_value]) VALUES ('N00000', '2013-01-01', 1)"
        ),
        lambda scene: scene.in_sql_server(f"DELETE FROM [{RAW}].[retirements]"),
    ),
    "a planted row in ClickHouse": (
        Scene.vanished,
        "0! is still in flights.flights_without_airline of clickhouse",
        lambda scene: scene.in_clickhouse(f"INSERT INTO {DATABASE}.flights_without_airline (carrier) VALUES ('0!')"),
        lambda scene: scene.in_clickhouse(f"TRUNCATE TABLE {DATABASE}.flights_without_airline"),
    ),
    "one byte more in a source": (
        Scene.source_bytes,
        "marts.flights_without_airline holds 2 bytes; charged 0, reported 0",
        lambda scene: scene.in_sql_server("INSERT INTO [marts].[flights_without_airline] ([carrier]) VALUES ('AA')"),
        lambda scene: scene.in_sql_server("DELETE FROM [marts].[flights_without_airline]"),
    ),
    "a table with the same rows and another identity": (
        Scene.published_tables,
        "flights.flights_without_airline is the table",
        lambda scene: (
            scene.in_clickhouse(f"CREATE TABLE {DATABASE}.twin AS {DATABASE}.flights_without_airline"),
            scene.in_clickhouse(f"EXCHANGE TABLES {DATABASE}.twin AND {DATABASE}.flights_without_airline"),
        ),
        lambda scene: (
            scene.in_clickhouse(f"EXCHANGE TABLES {DATABASE}.twin AND {DATABASE}.flights_without_airline"),
            scene.in_clickhouse(f"DROP TABLE {DATABASE}.twin"),
        ),
    ),
    "a column of another type": (
        Scene.column_types,
        "wind_speed: decimal(9,5) is held as Decimal(9, 4)",
        lambda scene: scene.in_clickhouse(
            f"ALTER TABLE {DATABASE}.flights_without_airline MODIFY COLUMN wind_speed Nullable(Decimal(9, 4))"
        ),
        lambda scene: scene.in_clickhouse(
            f"ALTER TABLE {DATABASE}.flights_without_airline MODIFY COLUMN wind_speed Nullable(Decimal(9, 5))"
        ),
    ),
    "a marker with another count": (
        Scene.markers,
        "retirements: 1 rows in its marker",
        lambda scene: scene.in_sql_server(_recount(scene, 1)),
        lambda scene: scene.in_sql_server(_recount(scene, 0)),
    ),
}


def _recount(scene: Scene, rows: int) -> str:
    (attempt,) = (each for each in scene.attempts if each.workload_id == "retirements")
    return f"UPDATE [dpone_fence].[markers] SET [row_count] = {rows} WHERE [operation_key] = '{attempt.operation_key}'"


@contextmanager
def spoiled(scene: Scene, spoil: Callable[[Scene], object], mend: Callable[[Scene], object]) -> Iterator[None]:
    spoil(scene)
    try:
        yield
    finally:
        mend(scene)


@pytest.mark.parametrize("what", _SPOILED)
def test_what_was_spoiled_is_found(scene: Scene, what: str) -> None:
    check, said, spoil, mend = _SPOILED[what]
    assert check(scene).passed, check(scene).detail
    with spoiled(scene, spoil, mend):
        found = check(scene)
        assert not found.passed
        assert said in found.detail
    assert check(scene).passed


def test_attempts_of_another_epoch_or_another_end_are_found(scene: Scene) -> None:
    assert scene.guards().passed, scene.guards().detail
    first, *rest = scene.attempts
    older = replace(first, guard_epochs={guard: epoch - 1 for guard, epoch in first.guard_epochs.items()})
    assert not state.guards(scene.control, [older, *rest]).passed
    assert not state.markers(scene.warehouse, [replace(each, state="FAILED") for each in scene.attempts]).passed
    assert not state.published_tables(
        scene.control, scene.clickhouse, [replace(each, state="FAILED") for each in scene.attempts]
    ).passed
    for nothing in (state.guards(scene.control, []), state.markers(scene.warehouse, [])):
        assert not nothing.passed
