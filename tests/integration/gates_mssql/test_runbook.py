"""The rehearsal of docs/runbook.md: its statements, run as they stand there, on a barrier that has failed."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_dpone.contracts.errors import GateTampered
from airflow_provider_dpone.drivers import Secret
from airflow_provider_dpone.drivers.mssql import connect
from airflow_provider_dpone.drivers.mssql_password import hashed_password
from airflow_provider_dpone.gates import logon_gate
from airflow_provider_dpone.gates.interface import MsSqlWriterGrant
from tests.support.live_gate import LiveGate, autocommit

RUNBOOK = Path(__file__).parents[3] / "docs" / "runbook.md"


def statements() -> list[str]:
    """The SQL of the page's first section, in order: look, take away, put back."""
    section = RUNBOOK.read_text(encoding="utf-8").split("\n## ")[1]
    assert section.startswith("The LOGON barrier")
    return [block.strip() for block in re.findall(r"```sql\n(.*?)```", section, re.DOTALL)]


def test_a_barrier_that_fails_locks_out_nobody_else_and_is_repaired_as_the_runbook_says(live: LiveGate) -> None:
    look, take_away, put_back = statements()
    control, reader = live.controller.database, f"[{logon_gate.READER}]"
    rows = "OBJECT::[dpone_control].[composition_login_gates]"
    running = live.attempt(live.run_id()).admit()
    grant = MsSqlWriterGrant(database=live.target)
    credential = live.gate.issue(running, running.principals[0], grant)
    writer = replace(live.controller, database=live.target).for_login(credential.username, credential.secret)
    passer = Secret.generate()
    live.as_dba(f"CREATE LOGIN [passer] WITH PASSWORD = {hashed_password(passer)} HASHED;")

    live.as_dba(f"REVOKE SELECT ON {rows} FROM {reader}", database=control)
    try:
        with pytest.raises(Exception, match=r"(?i)trigger|login failed"):
            connect(writer)
        connect(replace(live.dba, database="master").for_login("passer", passer)).close()
        # The session that repairs it is a new one: it passes the barrier that has failed.
        assert [tuple(row) for row in _as_sysadmin(live, look)] == [(logon_gate.TRIGGER, False)]
        _as_sysadmin(live, take_away)
        assert [tuple(row) for row in _as_sysadmin(live, look)] == [(logon_gate.TRIGGER, True)]
        connect(writer).close()

        nobody = live.attempt(live.run_id(), task_id="other").admit
        settlement = live.settlement(running)
        assert settlement.close()
        assert settlement.prove_quiescence()
        with pytest.raises(Exception, match=r"(?i)disabled|login failed"):
            connect(writer)
        assert settlement.finalize().state == "FAILED"
        later = nobody()
        with pytest.raises(GateTampered, match="logon_gate_disabled"):
            live.gate.issue(later, later.principals[0], grant)
    finally:
        live.as_dba(f"GRANT SELECT ON {rows} TO {reader}", database=control)
        _as_sysadmin(live, put_back)
        live.as_dba("DROP LOGIN [passer];")

    with autocommit(live.issuer) as connection:
        logon_gate.verify(connection, live.settings, control)
    with autocommit(replace(live.dba, database=control)) as connection:
        assert logon_gate.reader_may_read(connection, live.settings)
    assert live.gate.issue(later, later.principals[0], grant).username == later.principals[0].name
    live.settle_everything()


def _as_sysadmin(live: LiveGate, statement: str) -> list[tuple[Any, ...]]:
    return live.as_dba(statement, database="master")
