"""The ground that the fault matrix stands on: three engines, a released composition of three workloads, and what is true.

`planes` is a transfer from PostgreSQL into SQL Server, `shop` a dbt build there, and `flights` a publication from there
to ClickHouse. Each has three rows that carry a word; a new word in its source tells afterwards whether an attempt took
effect. Attempts and commands run in processes of their own, over configuration files, as an operator's do.
"""

from __future__ import annotations

import json
import secrets
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

from dpone_embedded.clickhouse.server import ClickHouseServer
from tsqldev.pgserver import PostgresProcess

from airflow_provider_dpone.cli.configuration import Configuration
from airflow_provider_dpone.composition.physical import observe_clickhouse
from airflow_provider_dpone.composition.services import GuardServices, gates_for
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.contracts.principal import Coordinates
from airflow_provider_dpone.drivers import Secret, drain, quote_mssql
from airflow_provider_dpone.drivers.clickhouse import ClickHouseDsn, connect
from airflow_provider_dpone.drivers.mssql import MsSqlDsn
from airflow_provider_dpone.drivers.mssql import connect as connect_mssql
from airflow_provider_dpone.ledger import ActivationStore, AttemptStore, SnapshotStore
from airflow_provider_dpone.ledger.enroll import EnrolledDomain, enroll
from tests.faults.worker import Worker, Workers
from tests.support import ledger_records as make
from tests.support import live_gate, live_postgres
from tests.support.live_gate import autocommit
from tests.support.live_postgres import LivePostgres
from tests.support.tcp_proxy import TcpProxy

Workload = Literal["planes", "shop", "flights"]
Engine = Literal["mssql", "postgres", "clickhouse"]
ENGINES: tuple[Engine, ...] = ("mssql", "postgres", "clickhouse")

_MANIFESTS = {
    "planes": """
cell: postgres_mssql_full_refresh_v1
source: {binding: ops, schema: public, table: planes}
sink: {binding: dw, schema: raw, table: planes, mode: full_refresh, guarantee: target_atomic}
""",
    "shop": """
cell: sqlserver_dbt_v1
dbt: {binding: dw, project: shop, default_schema: raw}
""",
    "flights": """
cell: mssql_clickhouse_full_refresh_v1
source: {binding: dw, schema: raw, table: flights, max_source_bytes: 1000000000}
sink: {binding: mart, table: flights, mode: full_refresh}
""",
}
_MODEL = "{{ config(materialized='table', as_columnstore=False) }}\nselect id, word from raw.shop_source\n"
#: Where a workload's word comes from, and where it goes.
_SOURCE = {"planes": "planes", "shop": "shop_source", "flights": "flights"}
_OVER = ("--try-is-over", "the process is gone, this test saw to it")

Rows = list[tuple[int, str]]


class Ground:
    """A deployment of its own. `folder` is empty, and holds everything of it that is a file."""

    def __init__(self, folder: Path, dba: MsSqlDsn, postgres: LivePostgres, clickhouse: ClickHouseServer) -> None:
        self.folder = folder
        self.postgres = postgres
        self.live = live_gate.provision(dba)
        store = ActivationStore(self.live.control, self.live.settings)
        store.begin_retirement(self.live.activation.request)
        store.finalize_retirement(self.live.activation.request)
        at = clickhouse.endpoint()
        self._access = ClickHouseDsn(host=at.host, port=at.port, user=at.admin_user, password=Secret(at.admin_password))
        self._observer = self._access.for_user(at.observer_user, Secret(at.observer_password))
        self.mart = f"mart_{secrets.token_hex(4)}"
        self._make_tables()
        self.config = self._configuration({})
        self.workers = Workers(folder / "workers.log")
        self._release()
        self.files = self._projection()

    def close(self) -> None:
        self.workers.close()
        self.clickhouse(f"DROP DATABASE {self.mart} SYNC")
        self.postgres.as_owner("DROP TABLE planes")
        live_gate.deprovision(self.live)

    # What attempts and operators do

    def coordinates(self) -> dict[str, Any]:
        return asdict(make.coordinates(self.live.run_id(), dag_id="dag", task_id="load"))

    def attempt(
        self,
        workload: Workload,
        where: dict[str, Any],
        *,
        config: Path | None = None,
        point: dict[str, Any] | None = None,
    ) -> Worker:
        """The try of these coordinates, started."""
        given = {"config": str(config or self.config), "workload": workload, "coordinates": where, "point": point}
        return self.workers.start(**given)

    def command(self, *arguments: str, config: Path | None = None, point: dict[str, Any] | None = None) -> Worker:
        """`dponectl`, started."""
        return self.workers.start(command=["--config", str(config or self.config), *arguments], point=point)

    def dponectl(self, *arguments: str) -> str:
        """`dponectl`, which has to succeed; what it printed."""
        ended = self.command(*arguments).end()
        assert ended["code"] == 0, (arguments, ended)
        return str(ended["out"])

    def settle(self, operation: Operation) -> None:
        """What an operator does with an operation whose try is over, until it is settled."""
        for _ in range(20):
            # "Not quiescent" says that something of the writer is still there: the same command, a moment later.
            ended = self.command("attempts", "settle", operation.attempt_sha256, *_OVER).end()
            if ended["code"] == 0:
                return
            time.sleep(0.25)
        raise AssertionError(ended)

    @contextmanager
    def proxies(self) -> Iterator[tuple[Path, dict[Engine, TcpProxy]]]:
        """A configuration whose every connection goes through proxies, and those."""
        with ExitStack() as stack:
            ways = {engine: stack.enter_context(TcpProxy("127.0.0.1", port)) for engine, port in self._ports().items()}
            yield self._configuration({engine: proxy.port for engine, proxy in ways.items()}), ways

    # What is true

    @property
    def services(self) -> GuardServices:
        return Configuration.read(self.config).services()

    def operation(self, where: dict[str, Any]) -> Operation | None:
        at = Coordinates(**where)
        found = AttemptStore(self.live.control, self.live.settings).find(*at.instance)
        assert len(found) <= 1
        return found[0] if found else None

    def new_word(self, workload: Workload) -> str:
        """Put a new word into the workload's source."""
        word = secrets.token_hex(4)
        source = _SOURCE[workload]
        if workload == "planes":
            self.postgres.as_owner(f"UPDATE {source} SET word = '{word}'")
        else:
            self.in_target(f"UPDATE [raw].[{source}] SET [word] = ?;", word)
        return word

    def rows(self, workload: Workload) -> Rows:
        """What the workload's target holds."""
        if workload == "flights":
            return sorted((int(i), str(word)) for i, word in self.clickhouse(f"SELECT * FROM {self.mart}.flights"))
        name = quote_mssql("raw", workload)
        if workload == "shop" and not self.in_target("SELECT 1 FROM sys.tables WHERE [name] = N'shop';"):
            return []
        return sorted((int(i), str(word)) for i, word in self.in_target(f"SELECT [id], [word] FROM {name};"))

    def evidence(self, operation: Operation, kind: str) -> Any:
        return AttemptStore(self.live.control, self.live.settings).evidence(operation.attempt_sha256, kind)

    def wrong_about(self, operation: Operation) -> list[str]:
        """What of the ledger, the three engines and the files is not as it must be after a settled operation."""
        wrong = []
        for kind in ("CLOSED_GATES", "QUIESCENCE", "OUTCOME"):
            proof = operation.proof(kind)
            if proof is None:
                wrong.append(f"no proof of {kind}")
            elif kind == "OUTCOME" and proof.outcome_state != operation.state:
                wrong.append(f"the outcome proof says {proof.outcome_state}")
        if operation.gate is not None and operation.gate.state != "CLOSED":
            wrong.append(f"the gate is {operation.gate.state}")
        for principal in operation.principals:
            if principal.connector == "mssql":
                if self.live.logins(principal.name) != [(principal.sid, True)] or self.live.sessions(principal.sid):
                    wrong.append(f"login {principal.name} is not closed and gone")
            elif principal.connector == "postgres":
                if not self.postgres.closed(principal.name):
                    wrong.append(f"role {principal.name} is not closed and gone")
            else:
                gates_for(self.services)["clickhouse"].prove_quiescent(operation, principal)
        wrong += self._wrong_record(operation)
        if AttemptStore(self.live.control, self.live.settings).unresolved():
            wrong.append("an operation is unresolved")
        if self._projection() != self.files:
            wrong.append("the files of the activation were changed")
        return wrong

    def _wrong_record(self, operation: Operation) -> list[str]:
        record = SnapshotStore(self.live.control, self.live.settings).read(operation.attempt_sha256)
        if record is None or record.state == "PREPARED":
            return []
        expected = "PUBLISHED" if operation.state == "SUCCEEDED" else "NOT_PUBLISHED"
        return [] if record.state == expected else [f"the publication is {record.state}"]

    def artifacts(self, operation: Operation) -> set[str]:
        """The names of the dbt artifacts that were kept of an operation."""
        kept = self._root / "attempts" / operation.attempt_sha256.removeprefix("sha256:") / "artifacts" / "target"
        return {path.name for path in kept.iterdir()} if kept.is_dir() else set()

    def in_target(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with autocommit(replace(self.live.dba, database=self.live.target)) as connection:
            results = drain(connection, statement, *parameters)
            return results[-1] if results else []

    def clickhouse(self, statement: str) -> list[Any]:
        with closing(connect(self._access)) as client:
            if statement.startswith("SELECT"):
                return list(client.query(statement).result_rows)
            client.command(statement)
            return []

    # How it is made

    def _make_tables(self) -> None:
        database = quote_mssql(self.live.target)
        with autocommit(replace(self.live.dba, database="master")) as connection:
            drain(connection, f"ALTER DATABASE {database} SET ALLOW_SNAPSHOT_ISOLATION ON;")
        for name in ("planes", "shop_source", "flights"):
            self.in_target(f"CREATE TABLE [raw].[{name}] ([id] int NOT NULL, [word] nvarchar(20) NOT NULL);")
            self.in_target(f"INSERT INTO [raw].[{name}] VALUES (1, N'old'), (2, N'old'), (3, N'old');")
        self.postgres.as_owner("CREATE TABLE planes (id int NOT NULL, word text NOT NULL)")
        self.postgres.as_owner("INSERT INTO planes VALUES (1, 'old'), (2, 'old'), (3, 'old')")
        self.clickhouse(f"CREATE DATABASE {self.mart} ENGINE = Atomic")
        self.clickhouse(f"CREATE TABLE {self.mart}.flights (id Int32, word String) ENGINE = MergeTree ORDER BY id")
        with closing(connect(self._observer)) as client:
            found = observe_clickhouse(client, database=self.mart)
        domain = EnrolledDomain(
            connector="clickhouse",
            service_id=found.service_id,
            physical_subject_sha256=found.physical_subject_sha256,
        )
        enroll(lambda: connect_mssql(self.live.dba), self.live.settings, [domain])

    def _release(self) -> None:
        source, built = self.folder / "source", self.folder / "release"
        (source / "shop" / "models").mkdir(parents=True)
        for name, text in _MANIFESTS.items():
            constituent = "standalone" if name == "planes" else "native"
            head = f"schema: dpone.workload.v1\nworkload_id: {name}\nconstituent_id: {constituent}\ndag_id: dag"
            (source / f"{name}.yaml").write_text(head + text, encoding="utf-8")
        project = "name: shop\nversion: '1.0.0'\nprofile: shop\n"
        (source / "shop" / "dbt_project.yml").write_text(project, encoding="utf-8")
        (source / "shop" / "models" / "shop.sql").write_text(_MODEL, encoding="utf-8")
        (source / "composition.yaml").write_text(
            "schema: dpone.composition.v1\nname: c\nenvironment: test\n"
            f"workloads: [{', '.join(f'{name}.yaml' for name in _MANIFESTS)}]\nbindings:\n"
            f"  ops: {{connector: postgres, database: {json.dumps(self.postgres.issuer.database)}}}\n"
            f"  dw: {{connector: mssql, database: {self.live.target}}}\n"
            f"  mart: {{connector: clickhouse, database: {self.mart}}}\n",
            encoding="utf-8",
        )
        self.dponectl("compose", "build", str(source), str(built))
        self.dponectl("composition", "activate", str(built))

    def _projection(self) -> dict[str, bytes]:
        files = [*self._root.glob("*.json"), *self._root.glob("activations/*")]
        return {str(path): path.read_bytes() for path in files}

    @property
    def _root(self) -> Path:
        return self.folder / "root"

    def _ports(self) -> dict[Engine, int]:
        found = {
            "mssql": self.live.controller.port,
            "postgres": self.postgres.issuer.port,
            "clickhouse": self._access.port,
        }
        return {engine: found[engine] for engine in ENGINES}

    def _configuration(self, ports: dict[Engine, int]) -> Path:
        ports = self._ports() | ports
        live = self.live
        lines = [f'service_id = "{live.settings.service_id}"', f'release_root = "{self._root}"']
        lines += _section("mssql", ports["mssql"], "trust_server_certificate = true")
        lines += [f'control_database = "{live.controller.database}"']
        for role in ("installer", "controller", "issuer", "closer", "outcome_reader"):
            dsn = getattr(live, {"installer": "dba", "outcome_reader": "observer"}.get(role, role))
            lines += self._account("mssql", role, dsn.user, dsn.password)
        lines += ["[mssql.roles.source_reader]", 'same_as = "outcome_reader"']
        lines += _section("postgres", ports["postgres"], f"database = {json.dumps(self.postgres.issuer.database)}")
        lines += [f"source_role = {json.dumps(self.postgres.source_role)}"]
        lines += self._account("postgres", "issuer", self.postgres.issuer.user, self.postgres.issuer.password)
        lines += self._account("postgres", "observer", self.postgres.observer.user, self.postgres.observer.password)
        lines += _section("clickhouse", ports["clickhouse"], "secure = false")
        lines += self._account("clickhouse", "access", self._access.user, self._access.password)
        lines += self._account("clickhouse", "observer", self._observer.user, self._observer.password)
        path = self.folder / f"{uuid.uuid4().hex}.toml"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    def _account(self, engine: str, role: str, user: str, password: Secret) -> list[str]:
        path = self.folder / f"{engine}_{role}"
        path.write_text(password.reveal() + "\n", encoding="utf-8")
        return [f"[{engine}.roles.{role}]", f"user = {json.dumps(user)}", f'password_file = "{path}"']


def _section(engine: str, port: int, *more: str) -> list[str]:
    return [f"[{engine}]", 'host = "127.0.0.1"', f"port = {port}", *more]


@contextmanager
def made(folder: Path, dba: MsSqlDsn) -> Iterator[Ground]:
    """A ground on a SQL Server endpoint that is there, with a PostgreSQL and a ClickHouse of its own."""
    for name in ("postgres", "clickhouse", "ground"):
        (folder / name).mkdir()
    clickhouse = ClickHouseServer(folder / "clickhouse")
    with PostgresProcess(folder / "postgres", settings={"fsync": "off"}, tcp=True) as server:
        clickhouse.start()
        try:
            ground = Ground(folder / "ground", dba, live_postgres.provision(server), clickhouse)
            try:
                yield ground
            finally:
                ground.close()
        finally:
            clickhouse.stop()
