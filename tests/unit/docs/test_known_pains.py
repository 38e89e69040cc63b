"""The page of known pains names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ROWS = [
    line.split("|")[1:-1]
    for line in (ROOT / "docs" / "known-pains.md").read_text(encoding="utf-8").splitlines()
    if re.match(r"\| P\d+ \|", line)
]


def test_there_are_rows_and_none_twice() -> None:
    numbers = [row[0].strip() for row in ROWS]
    assert len(numbers) == 38
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].strip())
def test_each_pain_names_tests_that_are_there(row: list[str]) -> None:
    assert len(row) == 4, row
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", row[3])
    assert named, f"no test in {row[3]!r}"
    for path, name in named:
        assert re.search(rf"^def {name}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE), f"{path}::{name}"
