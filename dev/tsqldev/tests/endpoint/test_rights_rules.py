"""Logins, users, roles, grants, denials, chains and impersonation, step by step against the documentation."""

from __future__ import annotations

import re
import secrets
import time
from contextlib import ExitStack, closing
from typing import Any

import pytest
from tsqldev.pytest_plugin import TsqlServer

from .rights_rules import RIGHTS, Steps
from .test_security import PASSWORD
from .test_stored_rules import answer

USERS = ("bob", "amy", "own")


@pytest.mark.parametrize("steps", RIGHTS.values(), ids=RIGHTS.keys())
def test_each_step_is_allowed_or_refused_as_documented(
    tsql_server: TsqlServer, tsql_database: str, steps: Steps
) -> None:
    tag = secrets.token_hex(3)

    def named(text: str) -> str:
        return re.sub(r"\bDB(?=_\d|\b)", tsql_database, text.replace("TAG", tag))

    given, wanted = [], []
    with closing(tsql_server.connect("python-tds", database=tsql_database)) as admin:
        for user in USERS:
            assert not answer(
                admin,
                f"CREATE LOGIN {user}_{tag} WITH PASSWORD = N'{PASSWORD}'; CREATE USER {user} FOR LOGIN {user}_{tag}",
            )
        with ExitStack() as opened:
            sessions: dict[str, Any] = {}
            for who, batch, wants in steps:
                if who not in sessions:
                    name = who.rstrip("0123456789")
                    options = {} if name == "sa" else {"user": f"{name}_{tag}", "password": PASSWORD}
                    connection = tsql_server.connect("python-tds", database=tsql_database, **options)  # type: ignore[arg-type]  # all are text
                    sessions[who] = opened.enter_context(closing(connection))
                had = answer(sessions[who], named(batch))
                given.append((who, batch, had))
                kept = had if wants is None and had[:1] != "!" else "allowed"
                wanted.append((who, batch, kept if wants is None else named(wants)))
        time.sleep(0.2)  # the server may notice a closed connection a moment later
        answer(admin, "USE master")
        for user in USERS:
            answer(admin, f"DROP LOGIN {user}_{tag}")
    assert given == wanted
