"""What an installation refuses about a server that no engine here can be made to be."""

from __future__ import annotations

import pytest

from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.ledger import LedgerSettings, install


class OldServer:
    """A double: a SQL Server 2017, of which there is none to run. It answers the first question and fails any other."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.closes = 0
        self.description: list[object] | None = [("name",)]

    def setautocommit(self, value: bool) -> None:
        assert value

    def cursor(self) -> OldServer:
        return self

    def execute(self, statement: str, *parameters: object) -> None:
        self.statements.append(statement)
        assert len(self.statements) == 1, "something was done to a server that is too old"

    def fetchall(self) -> list[tuple[object, ...]]:
        return [
            ("control", install.DATABASE_COLLATION, 0, 0, 0, 0, 14, "Microsoft SQL Server 2017 (RTM)", "14.0.3456.2")
        ]

    def nextset(self) -> bool:
        return False

    def commit(self) -> None:
        raise AssertionError("nothing may be committed")

    def rollback(self) -> None:
        pass

    def close(self) -> None:
        self.closes += 1


def test_a_server_older_than_2019_is_refused_and_nothing_is_installed() -> None:
    server = OldServer()
    settings = LedgerSettings(service_id="0f8fad5b-d9cd-469f-a165-70867728950e")

    with pytest.raises(ConfigurationError, match="SQL Server 2019") as refused:
        install.apply(lambda: server, settings, authority="production")

    assert refused.value.not_done == "nothing was installed."
    assert len(server.statements) == 1
    assert server.closes == 2  # its cursor, and the connection itself
