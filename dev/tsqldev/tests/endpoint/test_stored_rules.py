"""Tables, modules and queries do what the Transact-SQL reference says, batch by batch."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytds
import pytest
from tsqldev.pytest_plugin import TsqlServer

from .silent_rules import SILENT
from .statement_rules import STATEMENTS
from .stored_rules import STORED, Rules

ALL = {**STORED, **STATEMENTS, **SILENT}


def answer(connection: Any, batch: str) -> str:
    rows: list[tuple[Any, ...]] = []
    with closing(connection.cursor()) as cursor:
        try:
            cursor.execute(batch)
            while True:
                if cursor.description:
                    rows = [tuple(row) for row in cursor.fetchall()]
                if not cursor.nextset():
                    break
        except pytds.tds_base.Error as error:
            return f"!{getattr(error, 'number', error)}"
    return ";".join(",".join(_shown(value) for value in row) for row in rows)


def _shown(value: Any) -> str:
    if value is None:
        return "NULL"
    return value.hex() if isinstance(value, bytes | bytearray) else str(value)


@pytest.mark.parametrize("rules", ALL.values(), ids=ALL.keys())
def test_batches_answer_as_the_reference_says(tsql_server: TsqlServer, tsql_database: str, rules: Rules) -> None:
    with closing(tsql_server.connect("python-tds", database=tsql_database)) as connection:
        given = [(batch, answer(connection, batch)) for batch, _ in rules]
    wanted = [(batch, wants if wants is not None else had[1]) for (batch, wants), had in zip(rules, given, strict=True)]
    assert given == wanted
    assert not [
        batch for (batch, wants), (_, had) in zip(rules, given, strict=True) if wants is None and had[:1] == "!"
    ]
