"""Every listed difference still is one: neither healed unnoticed nor changed into another."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytds
import pytest
from tsqldev.pytest_plugin import TsqlServer

from .session_client import Client, Connect

_LISTED: list[dict[str, Any]] = tomllib.loads(
    (Path(__file__).parents[2] / "known_differences.toml").read_text(encoding="utf-8")
)["difference"]


def _answer(client: Client, probe: str) -> str:
    try:
        return str(client.value(probe))
    except pytds.tds_base.Error as error:
        return f"error {getattr(error, 'number', 0)}"


@pytest.mark.parametrize("difference", _LISTED, ids=[difference["name"] for difference in _LISTED])
def test_the_difference_is_as_listed(
    difference: dict[str, Any], tsql_server: TsqlServer, one: Client, connect: Connect
) -> None:
    for batch in difference.get("setup", []):
        one.run(batch)
    if "other" in difference:
        other = connect()
        for batch in difference["other"]:
            other.run(batch)
    answer = _answer(one, difference["probe"])
    assert difference["server"] != difference["emulation"]
    assert answer == difference["emulation" if tsql_server.emulation else "server"]
    assert difference["why"]


def test_names_are_distinct() -> None:
    names = [difference["name"] for difference in _LISTED]
    assert len(set(names)) == len(names)
