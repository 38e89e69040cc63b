"""A source database with rows, a ledger with an active workload that publishes them, and a ClickHouse target."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_dpone.attempts import GuardedAttempt
from airflow_provider_dpone.composition.physical import observe_clickhouse
from airflow_provider_dpone.contracts.ownership import guard_id
from airflow_provider_dpone.contracts.principal import Coordinates
from airflow_provider_dpone.drivers.clickhouse import ClickHouseDsn, connect
from airflow_provider_dpone.drivers.mssql import MsSqlDsn
from airflow_provider_dpone.ledger import Activation
from airflow_provider_dpone.ledger.enroll import enroll
from airflow_provider_dpone.routes.mssql_to_clickhouse import MsSqlToClickHousePlan, MsSqlToClickHouseRoute
from tests.support import ledger_records as make
from tests.support.live_ledger import LiveLedger, control_dsn

if TYPE_CHECKING:
    from tests.integration.clickhouse.conftest import World

ROWS = 3000
SOURCE = """
CREATE TABLE dbo.flights (
    id int NOT NULL, carrier nvarchar(10) NULL, delay decimal(9, 2) NULL, day date NOT NULL,
    departed datetime2(7) NULL, entry uniqueidentifier NOT NULL, late bit NULL, distance float NULL)
"""
TARGET = """
CREATE TABLE {database}.flights (
    id Int32, carrier Nullable(String), delay Nullable(Decimal(9, 2)), day Date32,
    departed Nullable(DateTime64(7, 'UTC')), entry UUID, late Nullable(Bool), distance Nullable(Float64))
ENGINE = MergeTree ORDER BY id
"""


@dataclass
class Stage:
    """A source database with rows, a ledger with an active workload, and a ClickHouse target."""

    world: World
    ledger: LiveLedger
    source: MsSqlDsn
    activation: Activation
    server: Any

    def route(self, max_source_bytes: int = 10**8, *, access: ClickHouseDsn | None = None) -> MsSqlToClickHouseRoute:
        [resource] = [found for found in self.activation.request.resources if found.service_id == self.world.service_id]
        plan = MsSqlToClickHousePlan(
            source=self.source,
            source_schema="dbo",
            source_table="flights",
            max_source_bytes=max_source_bytes,
            service_id=resource.service_id,
            physical_subject_sha256=resource.physical_subject_sha256,
            write_subject_sha256=resource.write_subjects[0],
            database=self.world.database,
            target_table="flights",
        )
        return MsSqlToClickHouseRoute(
            plan,
            access=access or self.world.access,
            observer=self.world.observer,
            snapshots=self.ledger.snapshots,
            charges=self.ledger.charges,
        )

    def attempt(
        self, where: Coordinates, max_source_bytes: int = 10**8, *, access: ClickHouseDsn | None = None
    ) -> GuardedAttempt:
        """One try; `access` is another way for its writers to the server."""
        attempt, where = self.ledger.attempt(self.activation, "w000", where)
        return GuardedAttempt(
            attempt,
            where,
            route=self.route(max_source_bytes, access=access),
            gates={"clickhouse": self.world.gate},
            ledger=self.ledger.attempts,
            quiescence_seconds=60,
        )

    def execute(self, sql: str) -> None:
        with closing(self.server.connect(database=self.source.database)) as connection:
            connection.execute(sql)

    def source_rows(self) -> list[tuple[Any, ...]]:
        """Read with another driver than the route's, in a form both engines print alike."""
        with closing(self.server.connect("python-tds", database=self.source.database)) as connection:
            cursor = connection.cursor()
            cursor.execute(
                "SELECT id, carrier, CONVERT(varchar(20), delay), CONVERT(varchar(10), day, 23), "
                "CONVERT(varchar(27), departed, 121), LOWER(CONVERT(char(36), entry)), CONVERT(int, late), distance "
                "FROM dbo.flights ORDER BY id"
            )
            return [tuple(row) for row in cursor.fetchall()]

    def target_rows(self) -> list[tuple[Any, ...]]:
        return self.world.sql(
            "SELECT id, carrier, if(delay IS NULL, NULL, toDecimalString(assumeNotNull(delay), 2)), toString(day), "
            "toString(departed), toString(entry), toInt32(late), distance "
            f"FROM {self.world.database}.flights ORDER BY id"
        )


def open_stage(world: World, ledger: LiveLedger, server: Any, database: str) -> Stage:
    """Fill the source and enrol the target, both new."""
    with closing(server.connect(database=database)) as connection:
        connection.execute(f"ALTER DATABASE [{database}] SET ALLOW_SNAPSHOT_ISOLATION ON")
        connection.execute(SOURCE)
        for start in range(0, ROWS, 500):
            values = ", ".join(_row(number) for number in range(start, start + 500))
            connection.execute(f"INSERT INTO dbo.flights VALUES {values}")
    world.do(TARGET.format(database=world.database))
    with closing(connect(world.observer)) as client:
        physical = observe_clickhouse(client, database=world.database)
    guard = guard_id(
        connector="clickhouse",
        service_id=physical.service_id,
        physical_subject_sha256=physical.physical_subject_sha256,
    )
    domain = (guard, "clickhouse", physical.service_id, physical.physical_subject_sha256)
    enroll(ledger.connect, ledger.settings, [ledger.enrollment(domain)])
    source = control_dsn(server.host, server.port, server.sa, server.sa_password, database)
    return Stage(world, ledger, source, ledger.active(domains=[domain, *ledger.enroll(1)]), server)


def _row(number: int) -> str:
    if number % 11 == 0:
        return f"({number}, NULL, NULL, '2013-01-01', NULL, '{number:08X}-8B86-D011-B42D-00C04FC964FF', NULL, NULL)"
    return (
        f"({number}, N'c{number % 16}é', {number % 700}.{number % 100:02}, '2013-{number % 12 + 1:02}-28', "
        f"'2013-06-30 23:59:{number % 60:02}.{number:07}', '{number:08X}-8B86-D011-B42D-00C04FC964FF', "
        f"{number % 2}, {number * 0.1!r})"
    )


def where(run_id: str, try_number: int = 1) -> Coordinates:
    return make.coordinates(run_id, task_id="publish.work", try_number=try_number)
