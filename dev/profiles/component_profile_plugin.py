"""Records on which engine a profile ran: emulation or SQL Server, with its full version text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture(scope="session", autouse=True)
def _engine(tsql_server: Any, record_testsuite_property: Callable[[str, object], None]) -> None:
    connection = tsql_server.connect()
    try:
        version = connection.execute("SELECT @@VERSION").fetchone()[0]
    finally:
        connection.close()
    record_testsuite_property("engine_version", " ".join(str(version).split()))
    record_testsuite_property("engine_kind", "emulation" if tsql_server.emulation else "sqlserver")
