"""The ClickHouse gate on a real engine: what it lets a writer do, and that nothing writes after it is closed."""

from __future__ import annotations

import hashlib
import http.client
import re
import secrets
import threading
import time
from base64 import b64encode
from contextlib import closing
from dataclasses import replace
from urllib.parse import quote

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError
from dpone_embedded.clickhouse import ClickHouseServer

from airflow_provider_dpone.contracts.errors import (
    ConfigurationError,
    ControlUnavailable,
    GateTampered,
    NotQuiescent,
)
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.drivers import Secret
from airflow_provider_dpone.drivers.clickhouse import connect
from airflow_provider_dpone.gates.clickhouse import ClickHouseGate
from airflow_provider_dpone.gates.clickhouse_names import staging_table, staging_uuid
from airflow_provider_dpone.gates.interface import ClickHouseIngestGrant, ClickHousePublishGrant, Credential
from tests.integration.clickhouse.conftest import World
from tests.support.tcp_proxy import Fate, TcpProxy


@pytest.fixture
def staged(world: World) -> Operation:
    operation = world.operation()
    for name, identity in ((staging_table(operation.attempt_sha256), staging_uuid(operation.attempt_sha256)),):
        world.do(f"CREATE TABLE {world.database}.{name} UUID '{identity}' (a Int64) ENGINE = MergeTree ORDER BY a")
    world.do(f"CREATE TABLE {world.database}.target (a Int64) ENGINE = MergeTree ORDER BY a")
    return operation


def issue_ingest(world: World, operation: Operation) -> Credential:
    grant = ClickHouseIngestGrant(database=world.database, staging_table=staging_table(operation.attempt_sha256))
    return world.gate.issue(operation, operation.principal("ingest"), grant)


def staging(world: World, operation: Operation) -> str:
    return f"{world.database}.{staging_table(operation.attempt_sha256)}"


def rows(world: World, table: str) -> int:
    return int(world.sql(f"SELECT count() FROM {table}")[0][0])


class Uploader:
    """A worker's INSERT in the middle of its body, spoken in plain HTTP so that each byte is ours."""

    def __init__(self, world: World, credential: Credential, table: str, max_query_size: int = 262_144) -> None:
        self._connection = http.client.HTTPConnection(world.endpoint.host, world.endpoint.port, timeout=20)
        login = b64encode(f"{credential.username}:{credential.secret.reveal()}".encode()).decode()
        statement = quote(f"INSERT INTO {table} FORMAT TSV")
        self._connection.putrequest("POST", f"/?async_insert=0&max_query_size={max_query_size}&query={statement}")
        self._connection.putheader("Authorization", f"Basic {login}")
        self._connection.putheader("Transfer-Encoding", "chunked")
        self._connection.endheaders()

    def send(self, count: int) -> None:
        body = b"".join(b"%d\n" % number for number in range(count))
        self._connection.send(b"%x\r\n" % len(body) + body + b"\r\n")

    def finish(self) -> int:
        """The HTTP status, or 0 when the connection was ended."""
        try:
            self._connection.send(b"0\r\n\r\n")
            return self._connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0


def test_an_ingest_user_may_insert_into_its_staging_table_and_do_nothing_else(world: World, staged: Operation) -> None:
    credential = issue_ingest(world, staged)
    with closing(connect(world.access.for_user(credential.username, credential.secret))) as writer:
        writer.command(f"INSERT INTO {staging(world, staged)} VALUES (1)")
        for refused in (
            f"INSERT INTO {world.database}.target VALUES (1)",
            f"SELECT count() FROM {staging(world, staged)}",
            f"DROP TABLE {staging(world, staged)}",
            f"EXCHANGE TABLES {staging(world, staged)} AND {world.database}.target",
            f"GRANT INSERT ON {world.database}.target TO {credential.username}",
            "SELECT count() FROM system.processes",
        ):
            with pytest.raises(DatabaseError) as caught:
                writer.command(refused)
            assert caught.value.code == 497, refused
    assert rows(world, staging(world, staged)) == 1
    assert rows(world, f"{world.database}.target") == 0


def test_a_publish_user_may_exchange_its_two_names_only(world: World, staged: Operation) -> None:
    world.do(f"CREATE TABLE {world.database}.other (a Int64) ENGINE = MergeTree ORDER BY a")
    name = staging_table(staged.attempt_sha256)
    grant = ClickHousePublishGrant(database=world.database, staging_table=name, target_table="target")
    credential = world.gate.issue(staged, staged.principal("publish"), grant)
    with closing(connect(world.access.for_user(credential.username, credential.secret))) as publisher:
        with pytest.raises(DatabaseError):
            publisher.command(f"EXCHANGE TABLES {world.database}.other AND {world.database}.target")
        publisher.command(f"EXCHANGE TABLES {world.database}.target AND {world.database}.{name}")
    assert world.target().tables("target")["target"].uuid == str(staging_uuid(staged.attempt_sha256))


def test_closing_takes_the_login_the_rights_and_the_name_for_good(world: World, staged: Operation) -> None:
    credential = issue_ingest(world, staged)
    principal = staged.principal("ingest")

    first = world.gate.close(staged, principal)
    second = world.gate.close(staged, principal)

    assert first == second
    assert first["grants"] == [] and first["hosts"] == [] and first["tombstone"] is True
    with pytest.raises(ControlUnavailable):
        connect(world.access.for_user(credential.username, credential.secret))
    with pytest.raises(GateTampered, match="clickhouse_user_exists"):
        issue_ingest(world, staged)
    proof = world.gate.prove_quiescent(staged, principal)
    assert proof["processes"] == [] and proof["positive_control"]["seen"] is True  # type: ignore[index]  # JSON
    assert proof["access_storage"] == "emulated_access_proxy"


def test_a_principal_that_was_never_created_is_closed_and_its_late_creation_refused(
    world: World, staged: Operation
) -> None:
    principal = staged.principal("ingest")
    assert world.gate.close(staged, principal)["tombstone"] is True
    world.gate.prove_quiescent(staged, principal)
    with pytest.raises(GateTampered):
        issue_ingest(world, staged)


def test_quiescence_is_not_concluded_while_the_gate_is_open(world: World, staged: Operation) -> None:
    issue_ingest(world, staged)
    with pytest.raises(GateTampered, match="clickhouse_gate_not_closed"):
        world.gate.prove_quiescent(staged, staged.principal("ingest"))


@pytest.mark.parametrize(("count", "max_query_size"), [(10, 262_144), (20_000, 262_144), (400_000, 100_000_000)])
def test_an_insert_that_the_process_list_does_not_show_yet_cannot_write_after_closure(
    world: World, staged: Operation, count: int, max_query_size: int
) -> None:
    credential = issue_ingest(world, staged)
    late = Uploader(world, credential, staging(world, staged), max_query_size)
    late.send(count)
    time.sleep(0.3)
    shown = world.sql(f"SELECT count() FROM system.processes WHERE user = '{credential.username}'")
    assert shown == [(0,)], "below max_query_size, 256 KiB unless the writer asks for more, the engine shows nothing"

    world.gate.close(staged, staged.principal("ingest"))
    world.gate.prove_quiescent(staged, staged.principal("ingest"))

    assert late.finish() != 200
    time.sleep(0.3)
    assert rows(world, staging(world, staged)) == 0


def test_a_running_insert_is_seen_killed_and_then_gone(world: World, staged: Operation) -> None:
    credential = issue_ingest(world, staged)
    uploader = Uploader(world, credential, staging(world, staged))
    uploader.send(400_000)
    deadline = time.monotonic() + 60
    query = f"SELECT count() FROM system.processes WHERE user = '{credential.username}' AND query_kind = 'Insert'"
    while world.sql(query) != [(1,)]:
        assert time.monotonic() < deadline
    [(receive_timeout,)] = world.sql("SELECT value FROM system.settings WHERE name = 'http_receive_timeout'")
    world.gate.close(staged, staged.principal("ingest"))
    deadline = time.monotonic() + float(str(receive_timeout))
    while True:
        try:
            world.gate.prove_quiescent(staged, staged.principal("ingest"))
            break
        except NotQuiescent as busy:
            # It says what it waits for, and waits no longer than the server itself waits for the rest of a body.
            assert credential.username in str(busy) and "Insert" in str(busy)
            assert time.monotonic() < deadline, busy
    before = rows(world, staging(world, staged))
    assert uploader.finish() != 200
    assert rows(world, staging(world, staged)) == before


def test_a_mutation_that_is_still_queued_on_the_staging_table_is_not_quiescent(world: World, staged: Operation) -> None:
    # The embedded engine writes asynchronous inserts at once, so a mutation stands for all queued work here.
    credential = issue_ingest(world, staged)
    with closing(connect(world.access.for_user(credential.username, credential.secret))) as writer:
        writer.command(f"INSERT INTO {staging(world, staged)} VALUES (7)")
    world.do(f"ALTER TABLE {staging(world, staged)} DELETE WHERE throwIf(a = 7) SETTINGS mutations_sync = 0")
    world.gate.close(staged, staged.principal("ingest"))

    with pytest.raises(NotQuiescent, match="mutation"):
        world.gate.prove_quiescent(staged, staged.principal("ingest"))

    world.do(f"KILL MUTATION WHERE database = '{world.database}'")
    world.gate.prove_quiescent(staged, staged.principal("ingest"))


def test_three_closers_at_once_leave_one_closed_user(world: World, staged: Operation) -> None:
    issue_ingest(world, staged)
    documents: list[object] = []
    closers = [
        threading.Thread(target=lambda: documents.append(world.gate.close(staged, staged.principal("ingest"))))
        for _ in range(3)
    ]
    for closer in closers:
        closer.start()
    for closer in closers:
        closer.join(30)
    assert len(documents) == 3 and documents[0] == documents[1] == documents[2]


def test_the_gate_refuses_another_server(world: World, staged: Operation) -> None:
    other = ClickHouseGate(
        service_id="7c9e6679-7425-40de-944b-e07fc1f90ae7", access=world.access, observer=world.observer
    )
    with pytest.raises(ConfigurationError):
        other.close(staged, staged.principal("ingest"))
    with pytest.raises(GateTampered, match="clickhouse_service"):
        other.close(staged, other.new_principal("ingest"))


def test_the_clear_password_is_in_no_statement_that_the_server_logs(world: World, staged: Operation) -> None:
    credential = issue_ingest(world, staged)
    world.do("SYSTEM FLUSH LOGS")
    found = world.sql(
        f"SELECT count() FROM system.query_log WHERE position(query, '{credential.secret.reveal()[:20]}') > 0 "
        "AND position(query, 'query_log') = 0"
    )
    assert found == [(0,)]


@pytest.mark.parametrize("needle", ["CREATE USER `dpone_a_", "GRANT INSERT"])
def test_a_lost_reply_while_issuing_is_sent_once_and_resolved_by_logging_in(
    world: World, staged: Operation, needle: str
) -> None:
    with TcpProxy(world.endpoint.host, world.endpoint.port, Fate(loss="reply", needle=needle)) as proxy:
        through = ClickHouseGate(
            service_id=world.service_id,
            access=replace(world.access, host="127.0.0.1", port=proxy.port),
            observer=world.observer,
        )
        grant = ClickHouseIngestGrant(database=world.database, staging_table=staging_table(staged.attempt_sha256))
        credential = through.issue(staged, staged.principal("ingest"), grant)
    assert proxy.met == 1
    with closing(connect(world.access.for_user(credential.username, credential.secret))) as writer:
        writer.command(f"INSERT INTO {staging(world, staged)} VALUES (1)")


@pytest.mark.parametrize("needle", ["CREATE USER IF NOT EXISTS", "ALTER USER", "REVOKE ALL", "KILL QUERY"])
def test_a_lost_reply_while_closing_is_sent_again_because_closing_is_idempotent(
    world: World, staged: Operation, needle: str
) -> None:
    issue_ingest(world, staged)
    with TcpProxy(world.endpoint.host, world.endpoint.port, Fate(loss="reply", needle=needle), times=1) as proxy:
        through = ClickHouseGate(
            service_id=world.service_id,
            access=replace(world.access, host="127.0.0.1", port=proxy.port),
            observer=world.observer,
        )
        document = through.close(staged, staged.principal("ingest"))
    assert proxy.met == 2 and document["tombstone"] is True


def bare_engine(world: World, server: ClickHouseServer) -> ClickHouseGate:
    """The engine behind the proxy: a server that cannot store users, because its only access storage is users.xml."""
    configuration = (server.log_files[0].parent / "config.xml").read_text()
    port = int(re.findall(r"<http_port>(\d+)</http_port>", configuration)[0])
    access = replace(world.access, port=port)
    with closing(connect(access)) as client:
        service_id = str(client.command("SELECT toString(serverUUID())"))
    return ClickHouseGate(service_id=service_id, access=access, observer=replace(world.observer, port=port))


def test_a_server_without_user_management_gives_one_clear_message(
    world: World, staged: Operation, clickhouse_server: ClickHouseServer
) -> None:
    gate = bare_engine(world, clickhouse_server)
    grant = ClickHouseIngestGrant(database=world.database, staging_table=staging_table(staged.attempt_sha256))
    with pytest.raises(ConfigurationError, match="clickhouse_user_management"):
        gate.require_ready()
    with pytest.raises(ConfigurationError, match="clickhouse_user_management"):
        gate.issue(staged, gate.new_principal("ingest"), grant)


def test_accounts_without_their_rights_are_refused_before_anything_is_admitted(world: World) -> None:
    world.gate.require_ready()
    no_rights = ClickHouseGate(service_id=world.service_id, access=world.observer, observer=world.observer)
    with pytest.raises(ConfigurationError, match="clickhouse_access_rights"):
        no_rights.require_ready()
    with closing(connect(world.access)) as client:
        name = f"blind_{world.database}"
        digest = hashlib.sha256(b"a password of an observer without rights").hexdigest()
        client.command(f"CREATE USER {name} IDENTIFIED WITH sha256_hash BY '{digest}' HOST LOCAL")
    blind = world.access.for_user(name, Secret("a password of an observer without rights"))
    with pytest.raises(ConfigurationError, match="clickhouse_observer_rights"):
        ClickHouseGate(service_id=world.service_id, access=world.access, observer=blind).require_ready()
    assert world.sql("SELECT count() FROM system.users WHERE startsWith(name, 'dpone_c_')") == [(0,)]


@pytest.mark.parametrize(
    "password",
    [
        "it's \"quoted\" `so` and \\ \\n \\'",
        "100 % %s %(a)s {a} ?",
        ":co:lon: @/#&=+;",
        " ä é 漢字 \U0001f6eb ",
        "tab\tand\nline",
    ],
)
def test_every_character_of_a_password_arrives(world: World, password: str) -> None:
    name = f"odd_{secrets.token_hex(4)}"
    digest = hashlib.sha256(password.encode()).hexdigest()
    world.do(f"CREATE USER {name} IDENTIFIED WITH sha256_hash BY '{digest}' HOST LOCAL")
    try:
        with closing(connect(world.access.for_user(name, Secret(password)))) as client:
            assert client.query("SELECT 1").result_rows == [(1,)]
        with pytest.raises(ControlUnavailable) as refused:
            connect(world.access.for_user(name, Secret(password + "x")))
        assert password not in str(refused.value)
    finally:
        world.do(f"DROP USER {name}")
