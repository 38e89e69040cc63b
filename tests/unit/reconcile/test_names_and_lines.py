"""Names, line ends and planted rows that a table of anybody may have."""

from __future__ import annotations

from typing import Any

import pytest
from dpone_reconcile import checks, engines, state


class Asked:
    """A server that holds no row and remembers what it was asked."""

    def __init__(self, *answers: list[tuple[Any, ...]]) -> None:
        self.answers = list(answers)
        self.queries: list[str] = []

    def rows(self, query: str, parameters: Any = ()) -> list[tuple[Any, ...]]:
        self.queries.append(query)
        return self.answers.pop(0) if self.answers else []


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_only_a_line_feed_ends_a_line(size: int) -> None:
    text = "a\u2028b\x85c\x1cd\x0be\x0cf\rg"
    raw = f"{text}\n\nlast\n".encode()
    chunks = [raw[at : at + size] for at in range(0, len(raw), size)]
    assert list(engines._lines(iter(chunks))) == [text, "", "last"]


def test_bytes_that_are_no_text_are_refused_instead_of_being_replaced() -> None:
    with pytest.raises(UnicodeDecodeError):
        list(engines._lines(iter([b"\xff\n"])))


def test_names_are_quoted() -> None:
    server: Any = Asked([("a]b",)], [(3,)])
    assert state._held(server, "s]", "t]x") == 3
    assert server.queries[1] == "SELECT SUM(CAST(DATALENGTH([a]]b]) AS bigint)) FROM [s]]].[t]]x]"
    planted = {"schema": "a`b", "table": "c\\d", "column": "e", "value": "x", "engine": "clickhouse"}
    assert checks.vanished([planted], server, server).passed
    assert r"FROM `a\`b`.`c\\d` WHERE `e` =" in server.queries[-1]


@pytest.mark.parametrize("wrong", [{"value": None}, {"value": 5}, {"engine": "SQLSERVER"}, {"engine": None}], ids=str)
def test_a_planted_row_that_could_never_be_found_has_not_vanished(wrong: dict[str, Any]) -> None:
    row = {"engine": "sqlserver", "schema": "s", "table": "t", "column": "c", "value": "x"} | wrong
    server: Any = Asked()
    with pytest.raises(ValueError, match="planted"):
        checks.vanished([row], server, server)
    assert server.queries == []
