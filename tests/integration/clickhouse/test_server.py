"""The embedded server itself: a life of starts, kills and stops, and the access statements that its proxy answers."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import DatabaseError
from dpone_embedded.clickhouse import ClickHouseServer, Endpoint

from airflow_provider_dpone.contracts.errors import ControlUnavailable
from airflow_provider_dpone.drivers import Secret
from airflow_provider_dpone.drivers.clickhouse import ClickHouseDsn, connect
from tests.integration.clickhouse.conftest import World


def client_of(endpoint: Endpoint, user: str | None = None, password: str | None = None) -> Client:
    return connect(
        ClickHouseDsn(
            host=endpoint.host,
            port=endpoint.port,
            user=user or endpoint.admin_user,
            password=Secret(password or endpoint.admin_password),
        )
    )


def create_user(client: Client, name: str, clauses: str = "HOST LOCAL") -> str:
    digest = hashlib.sha256(b"a long enough passwordpepper").hexdigest()
    client.command(f"CREATE USER {name} IDENTIFIED WITH sha256_hash BY '{digest}' SALT 'pepper' {clauses}")
    return "a long enough password"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ClickHouseServer]:
    made = ClickHouseServer(tmp_path / "state with a blank and ä")
    made.start()
    yield made
    made.stop()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


def gone(pid: int, seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while alive(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_what_was_committed_and_who_was_closed_survives_a_kill(server: ClickHouseServer) -> None:
    with closing(client_of(server.endpoint())) as client:
        identity = client.command("SELECT toString(serverUUID())")
        client.command("CREATE DATABASE kept ENGINE = Atomic")
        client.command("CREATE TABLE kept.t (a Int64) ENGINE = MergeTree ORDER BY a")
        client.command("INSERT INTO kept.t VALUES (1)")
        password = create_user(client, "writer")
        client.command("GRANT INSERT ON kept.t TO writer")
        create_user(client, "tombstone", "VALID UNTIL '2000-01-01 00:00:00' HOST NONE")
    engine, proxy = server.engine_pid(), server.process.pid
    server.kill()
    assert gone(engine) and gone(proxy)

    again = server.start()

    with closing(client_of(again)) as client:
        assert client.command("SELECT toString(serverUUID())") == identity
        assert client.query("SELECT a FROM kept.t").result_rows == [(1,)]
        with closing(client_of(again, "writer", password)) as writer:
            writer.command("INSERT INTO kept.t VALUES (2)")
        with pytest.raises(DatabaseError) as caught:
            create_user(client, "tombstone")
        assert caught.value.code == 493


def test_the_engine_alone_killed_ends_the_server_too(server: ClickHouseServer) -> None:
    proxy = server.process
    os.kill(server.engine_pid(), signal.SIGKILL)
    assert proxy.wait(10) != 0
    server.start()
    with closing(client_of(server.endpoint())) as client:
        assert str(client.command("SELECT 1")) == "1"


def test_the_server_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    script = (
        "import sys, time; from dpone_embedded.clickhouse import ClickHouseServer\n"
        f"s = ClickHouseServer({str(tmp_path / 'state')!r}); s.start()\n"
        "print(s.process.pid, s.engine_pid(), flush=True); time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    proxy, engine = (int(word) for word in parent.stdout.readline().split())
    parent.kill()
    parent.wait()
    assert gone(proxy) and gone(engine)


def test_it_listens_on_loopback_only_and_keeps_its_secrets_to_its_owner(server: ClickHouseServer) -> None:
    state = server.log_files[0].parent
    for name in ("secrets.json", "access.json", "users.xml"):
        path = state / name
        if path.exists():
            assert path.stat().st_mode & 0o077 == 0, name
    text = server.log_files[0].read_text() + server.log_files[1].read_text()
    assert server.endpoint().admin_password not in text
    assert server.endpoint().admin_password not in repr(server.endpoint())


def test_stop_leaves_nothing_behind(tmp_path: Path) -> None:
    server = ClickHouseServer(tmp_path / "state")
    server.start()
    engine, proxy = server.engine_pid(), server.process.pid
    server.stop()
    server.stop()
    assert gone(engine, 1) and gone(proxy, 1)


def test_a_taken_port_is_said_and_leaves_nothing(tmp_path: Path, world: World) -> None:
    server = ClickHouseServer(tmp_path / "state", http_port=world.endpoint.port)
    with pytest.raises(RuntimeError, match="did not start"):
        server.start()


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("CREATE USER u IDENTIFIED WITH ldap SERVER 's'", 62),
        ("CREATE USER u NOT IDENTIFIED", 48),
        ("CREATE USER u", 48),
        ("CREATE USER u IDENTIFIED WITH sha256_hash BY 'ab' DEFAULT ROLE r", 48),
        ("CREATE USER u ON CLUSTER c IDENTIFIED WITH sha256_hash BY 'ab'", 48),
        ("CREATE ROLE r", 48),
        ("GRANT ALL ON *.* TO dpone_observer", 48),
        ("GRANT SELECT ON *.* TO dpone_observer", 495),
        ("GRANT SYSTEM ON *.* TO somebody", 48),
        ("GRANT INSERT ON d.t TO nobody_here", 192),
        ("ALTER USER nobody_here HOST NONE", 192),
        ("DROP USER nobody_here", 192),
        ("DROP USER dpone_admin", 495),
        ("SHOW GRANTS FOR nobody_here", 192),
        ("SHOW USERS", 48),
        ("SELECT * FROM system.grants", 48),
        ("CREATE USER u IDENTIFIED WITH sha256_hash BY 'ab", 62),
    ],
)
def test_an_access_statement_that_is_not_known_is_refused_in_clickhouses_terms(
    world: World, statement: str, code: int
) -> None:
    with closing(connect(world.access)) as client:
        with pytest.raises(DatabaseError) as caught:
            client.command(statement)
        assert caught.value.code == code


def test_only_who_manages_access_may_change_it(world: World) -> None:
    with closing(connect(world.observer)) as client:
        with pytest.raises(DatabaseError) as caught:
            create_user(client, "someone")
        assert caught.value.code == 497
        with pytest.raises(DatabaseError):
            client.command(f"CREATE TABLE {world.database}.t (a Int64) ENGINE = Memory")


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT /* {d}.other */ INTO {d}.mine VALUES (1)",
        "INSERT INTO TABLE `{d}`.`mine` (a) FORMAT TSV\n1",
        'insert into {d}."mine" settings async_insert = 0 values (1)',
    ],
)
def test_the_target_of_an_insert_is_read_as_clickhouse_reads_it(world: World, statement: str) -> None:
    password, name = prepare_writer(world)
    with closing(client_of(world.endpoint, name, password)) as writer:
        writer.command(statement.format(d=world.database))
    assert world.sql(f"SELECT a FROM {world.database}.mine") == [(1,)]


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("INSERT INTO {d}.other /* {d}.mine */ VALUES (1)", 497),
        ("INSERT INTO {d}.other VALUES (1) -- INSERT INTO {d}.mine", 497),
        ("/* INSERT INTO {d}.mine */ INSERT INTO {d}.other VALUES (1)", 497),
        ("INSERT INTO `{d}`.`oth\\er` VALUES (1)", 497),
        ("INSERT INTO FUNCTION file('x') VALUES (1)", 48),
        ("INSERT INTO {d}.mine SELECT a FROM {d}.other", 48),
        ("WITH 1 AS x INSERT INTO {d}.other SELECT x", 497),
        ("EXPLAIN INSERT INTO {d}.mine VALUES (1)", 80),
        ("SELECT * FROM {d}.other", 497),
        ("SELECT * FROM merge('{d}', '.*')", 636),
        ("ALTER TABLE {d}.mine DELETE WHERE 1", 497),
        ("TRUNCATE TABLE {d}.mine", 497),
        ("CREATE TABLE {d}.more (a Int64) ENGINE = Memory", 497),
        ("KILL QUERY WHERE 1", 497),
        ("SYSTEM FLUSH LOGS", 497),
    ],
)
def test_a_writer_cannot_reach_past_its_table(world: World, statement: str, code: int) -> None:
    password, name = prepare_writer(world)
    with closing(client_of(world.endpoint, name, password)) as writer, pytest.raises(DatabaseError) as caught:
        writer.command(statement.format(d=world.database))
    assert caught.value.code == code, caught.value
    assert world.sql(f"SELECT (SELECT count() FROM {world.database}.mine), count() FROM {world.database}.other") == [
        (0, 0)
    ]


def prepare_writer(world: World) -> tuple[str, str]:
    name = f"w_{world.database}"
    for table in ("mine", "other"):
        world.do(f"CREATE TABLE {world.database}.{table} (a Int64) ENGINE = MergeTree ORDER BY a")
    with closing(connect(world.access)) as client:
        password = create_user(client, name)
        client.command(f"GRANT INSERT ON {world.database}.mine TO {name}")
        assert client.query(f"SHOW GRANTS FOR {name}").result_rows == [
            (f"GRANT INSERT ON {world.database}.mine TO {name}",)
        ]
    return password, name


def test_the_clauses_of_a_user_decide_who_logs_in(world: World) -> None:
    name = f"c_{world.database}"
    with closing(connect(world.access)) as client:
        password = create_user(client, name, "VALID UNTIL '2000-01-01 00:00:00' HOST ANY")
        with pytest.raises(ControlUnavailable):
            client_of(world.endpoint, name, password)
        client.command(f"ALTER USER {name} VALID UNTIL 'infinity' HOST IP '10.0.0.0/8'")
        with pytest.raises(ControlUnavailable):
            client_of(world.endpoint, name, password)
        client.command(f"ALTER USER {name} HOST IP '10.0.0.0/8', IP '127.0.0.0/8'")
        client_of(world.endpoint, name, password).close()
        with pytest.raises(ControlUnavailable):
            client_of(world.endpoint, name, "another password")
        client.command(f"DROP USER {name}")
        with pytest.raises(ControlUnavailable):
            client_of(world.endpoint, name, password)


def test_logs_show_the_names_that_the_product_knows(world: World) -> None:
    password, name = prepare_writer(world)
    with closing(client_of(world.endpoint, name, password)) as writer:
        assert writer.query("SELECT currentUser()").result_rows == [(name,)]
        writer.command(f"INSERT INTO {world.database}.mine VALUES (1)")
    world.do("SYSTEM FLUSH LOGS")
    found = world.sql(
        f"SELECT DISTINCT l.user FROM system.query_log AS l WHERE l.query_kind = 'Insert' "
        f"AND has(l.tables, '{world.database}.mine')"
    )
    assert found == [(name,)]
    assert world.sql("SELECT count() FROM system.users WHERE startsWith(name, 'dpone_pool_')") == [(0,)]
