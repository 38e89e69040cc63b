"""Sessions of drivers: other people's pass the barrier, and none of ours outlives its close."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from tsqldev.pytest_plugin import DRIVERS, TsqlServer

from airflow_provider_dpone.drivers import drain
from airflow_provider_dpone.drivers.mssql import connect, connect_autocommit
from airflow_provider_dpone.gates import logon_gate
from tests.support.live_gate import LiveGate

#: What users have seen pools do within a second, and long enough for a server to end a session.
SECONDS = 1.0


@pytest.mark.parametrize("reader", ["with its right", "without its right"])
@pytest.mark.parametrize("client", DRIVERS)
def test_every_other_login_passes_the_barrier_whatever_its_client(
    live: LiveGate, tsql_server: TsqlServer, client: str, reader: str
) -> None:
    """A LOGON trigger with a result, or with SET options, breaks some drivers; one that reads first locks all out."""
    rows = "OBJECT::[dpone_control].[composition_login_gates]"
    control = live.controller.database
    if reader == "without its right":
        live.as_dba(f"REVOKE SELECT ON {rows} FROM [{logon_gate.READER}];", database=control)
    try:
        password = live.controller.password.reveal()
        for user, secret in ((None, None), (live.controller.user, password)):
            with closing(tsql_server.connect(client, user=user, password=secret)) as connection:
                cursor = connection.cursor()
                cursor.execute("SELECT ORIGINAL_LOGIN()")
                assert cursor.fetchall()[0][0] == (user or tsql_server.sa)
    finally:
        live.as_dba(f"GRANT SELECT ON {rows} TO [{logon_gate.READER}];", database=control)


@pytest.mark.parametrize("open_it", [connect, connect_autocommit], ids=["transactions", "autocommit"])
def test_a_closed_session_is_gone_and_so_is_what_it_had_not_committed(live: LiveGate, open_it: Any) -> None:
    """A pool parks a session together with its open transaction."""
    connection = open_it(replace(live.controller, database=live.target))
    drain(connection, "BEGIN TRANSACTION; INSERT INTO [raw].[effects] ([operation_key]) VALUES ('parked');")
    ((session, login_time),) = drain(
        connection,
        "SELECT [session_id], CONVERT(varchar(40), [login_time], 126) FROM sys.dm_exec_sessions WHERE [session_id] = @@SPID;",
    )[-1]
    connection.close()
    del connection
    gc.collect()
    sql = "SELECT COUNT(*) FROM sys.dm_exec_sessions WHERE [session_id] = ? AND CONVERT(varchar(40), [login_time], 126) = ?;"
    deadline = time.monotonic() + SECONDS
    while live.as_dba(sql, session, login_time) != [(0,)]:
        assert time.monotonic() < deadline, "the session is still there"
        time.sleep(0.02)
    found = live.as_dba("SELECT COUNT(*) FROM [raw].[effects] WHERE [operation_key] = 'parked';", database=live.target)
    assert found == [(0,)]


def test_pooling_is_off_before_the_first_session_of_a_process(live: LiveGate) -> None:
    """Switched off later, it keeps what it has pooled."""
    code = """
import sys
import mssql_python
calls = []
pooling, opened = mssql_python.pooling, mssql_python.connect
mssql_python.pooling = lambda **how: (calls.append(how), pooling(**how))
mssql_python.connect = lambda *a, **k: (calls.append("connect"), opened(*a, **k))[1]
from airflow_provider_dpone.drivers import Secret
from airflow_provider_dpone.drivers.mssql import MsSqlDsn, connect
host, port, user, database = sys.argv[1:]
dsn = MsSqlDsn(host=host, port=int(port), user=user, database=database, password=Secret(sys.stdin.read()),
               trust_server_certificate=True)
connect(dsn).close()
assert calls == [{"enabled": False}, "connect"], calls
foreign = {"pyodbc", "pymssql", "pytds"} & set(sys.modules)
assert not foreign, foreign
"""
    dsn = live.controller
    done = subprocess.run(
        [sys.executable, "-c", code, dsn.host, str(dsn.port), dsn.user, dsn.database],
        input=dsn.password.reveal(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("times", [1, pytest.param(200, marks=pytest.mark.campaign)])
def test_twelve_thousand_rows_are_all_there(live: LiveGate, times: int) -> None:
    """Users of another driver lost the last of them: an attention overtook the COMMIT."""
    target = replace(live.controller, database=live.target)
    for number in range(times):
        with closing(connect(target)) as connection:
            cursor: Any = connection.cursor()
            rows = ((f"row {number} {each}",) for each in range(12_000))
            cursor.bulkcopy("[raw].[effects]", rows, timeout=0)
            cursor.close()
            connection.commit()
        sql = "SELECT COUNT(*) FROM [raw].[effects] WHERE [operation_key] LIKE ?;"
        assert live.as_dba(sql, f"row {number} %", database=live.target) == [(12_000,)]
        live.as_dba("DELETE FROM [raw].[effects] WHERE [operation_key] LIKE 'row %';", database=live.target)
