"""The tables of docs/roles.md that say which role may do what."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "roles.md"


def allowed_on(engine: str, actions: Collection[str]) -> tuple[tuple[str, ...], Mapping[str, frozenset[str]]]:
    """The roles of the table of this engine, and who may do each of the actions."""
    lines = (line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|"))
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    header = next(row for row in rows if row[0] == f"On {engine}")
    roles = tuple(header[1:])
    return roles, {
        row[0]: frozenset(role for role, cell in zip(roles, row[1:], strict=True) if cell == "yes")
        for row in rows
        if len(row) == len(header) and row[0] in actions
    }
