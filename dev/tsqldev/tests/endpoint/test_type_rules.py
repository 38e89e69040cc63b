"""Result types and values of expressions, one by one, against the rules of the Transact-SQL reference."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from typing import Any

import pytds
import pytest
from tsqldev.pytest_plugin import TsqlServer

from .type_rules import CORNERS, MOMENTS, NUMBERS, TEXTS, Rule


@pytest.fixture(scope="module")
def connection(tsql_server: TsqlServer) -> Iterator[Any]:
    with closing(tsql_server.connect("python-tds")) as opened:
        yield opened


def first(connection: Any, batch: str) -> tuple[Any, ...]:
    with closing(connection.cursor()) as cursor:
        cursor.execute(batch)
        return tuple(cursor.fetchall()[0])


def value_of(connection: Any, expression: str) -> Any:
    try:
        return first(connection, f"SELECT {expression}")[0]
    except pytds.tds_base.Error as error:
        return f"!{getattr(error, 'number', error)}"


def type_of(connection: Any, expression: str) -> str:
    quoted = f"SELECT {expression} AS x".replace("'", "''")
    return str(first(connection, f"EXEC sp_describe_first_result_set @tsql = N'{quoted}'")[5])


def agrees(value: Any, wanted: str) -> bool:
    if value is None:
        return wanted == "NULL"
    if isinstance(value, bytes | bytearray):
        return value.hex() == wanted
    if isinstance(value, Decimal | float) and not wanted.startswith("!"):
        return Decimal(str(value)) == Decimal(wanted)
    return str(value) == wanted


@pytest.mark.parametrize("rules", [NUMBERS, TEXTS, MOMENTS, CORNERS], ids=["numbers", "texts", "moments", "corners"])
def test_each_expression_has_the_type_and_the_value_of_the_reference(connection: Any, rules: list[Rule]) -> None:
    wrong = []
    for expression, type, value in rules:
        if type is not None and (given := type_of(connection, expression)) != type:
            wrong.append(f"{expression} is {given}, not {type}")
        if value is not None and not agrees(answer := value_of(connection, expression), value):
            wrong.append(f"{expression} gives {answer!r}, not {value}")
    assert not wrong, "\n".join(wrong)
