"""The PostgreSQL behind the endpoint: where it may live, what it survives, who may enter."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest
from tsqldev.pgserver import PostgresFailed, PostgresProcess


def _pids_in(folder: Path) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cwd").samefile(folder):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "a Ж folder" / "pg"


def test_starts_in_a_folder_that_only_the_owner_can_enter_and_whose_name_has_a_blank_and_a_letter_beyond_ascii(
    folder: Path,
) -> None:
    with PostgresProcess(folder, settings={"max_connections": 17}) as server, psycopg.connect(server.conninfo()) as c:
        row = c.execute("SELECT upper('ж'), current_setting('max_connections'), current_setting('server_encoding')")
        assert row.fetchone() == ("Ж", "17", "UTF8")
    assert _pids_in(server.data_directory) == []
    assert not Path(server._socket_directory or "/nonexistent").exists()


def test_listens_on_tcp_only_on_request_and_then_wants_the_password_of_this_start(folder: Path) -> None:
    with PostgresProcess(folder) as server:
        assert server.port is None
    with PostgresProcess(folder, tcp=True) as server:
        place = f"host=127.0.0.1 port={server.port} user=postgres dbname=postgres"
        with psycopg.connect(place, password=server.superuser_password) as c:
            assert c.execute("SELECT 1").fetchone() == (1,)
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(place, password="not it")
        first, written = server.superuser_password, folder.rglob("*")
        assert all(first.encode() not in path.read_bytes() for path in written if path.is_file())
    with PostgresProcess(folder, tcp=True) as server:
        assert server.superuser_password != first


def test_committed_rows_survive_kill_9_of_the_server(folder: Path) -> None:
    server = PostgresProcess(folder, settings={"fsync": "off"})
    server.start()
    with psycopg.connect(server.conninfo()) as c:
        c.execute("CREATE TABLE t AS SELECT 1 AS a")
    server.kill()
    server.stop()
    with server, psycopg.connect(server.conninfo()) as c:
        assert c.execute("SELECT a FROM t").fetchone() == (1,)


def test_a_pid_that_now_belongs_to_a_stranger_does_not_keep_the_server_down(folder: Path) -> None:
    server = PostgresProcess(folder)
    server.start()
    server.kill()
    server.stop()
    lines = (server.data_directory / "postmaster.pid").read_text().splitlines()
    (server.data_directory / "postmaster.pid").write_text("\n".join([str(os.getppid()), *lines[1:]]) + "\n")
    with server, psycopg.connect(server.conninfo()) as c:
        assert c.execute("SELECT 1").fetchone() == (1,)


def test_a_killed_owner_leaves_no_server_and_the_next_owner_recovers(folder: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from tsqldev.pgserver import PostgresProcess;"
        "PostgresProcess(Path(sys.argv[1])).start(); print('up', flush=True); time.sleep(60)"
    )
    owner = subprocess.Popen([sys.executable, "-c", script, str(folder)], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    assert owner.stdout.readline() == b"up\n"
    assert _pids_in(folder / "pgdata")
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    end = time.monotonic() + 20
    while _pids_in(folder / "pgdata") and time.monotonic() < end:
        time.sleep(0.05)
    assert _pids_in(folder / "pgdata") == []
    with PostgresProcess(folder) as server, psycopg.connect(server.conninfo()) as c:
        assert c.execute("SELECT 1").fetchone() == (1,)


def test_a_stranger_who_stands_in_the_data_folder_is_left_alone(folder: Path) -> None:
    with PostgresProcess(folder) as server:
        pass
    stranger = subprocess.Popen(["sleep", "60"], cwd=server.data_directory)
    try:
        with server, psycopg.connect(server.conninfo()) as c:
            assert c.execute("SELECT 1").fetchone() == (1,)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_two_owners_of_one_folder_are_refused_and_the_first_goes_on(folder: Path) -> None:
    with PostgresProcess(folder) as first:
        with pytest.raises(PostgresFailed, match="in use by another process"):
            PostgresProcess(folder).start()
        with psycopg.connect(first.conninfo()) as c:
            assert c.execute("SELECT 1").fetchone() == (1,)


def test_a_wrong_setting_is_reported_with_the_servers_own_words_and_leaves_nothing_running(folder: Path) -> None:
    server = PostgresProcess(folder, settings={"max_connections": "many"})
    with pytest.raises(PostgresFailed, match="max_connections"):
        server.start()
    assert _pids_in(server.data_directory) == []
