"""SQL lives in files; a statement is known by its name.

A file is a sequence of blocks::

    -- name: close_session
    -- Ends one session after its id, login time and SID were checked again.
    ...statement text...

The line after the name is the purpose and is required. Identifiers are put in for ``{{name}}`` by ``SqlFile.text``
and arrive already quoted by ``quoting``; everything else is a parameter.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from airflow_provider_dpone.contracts.errors import ConfigurationError

_NAME = re.compile(r"^-- name: (?P<name>[a-z][a-z0-9_]*)\s*$")
_GO = re.compile(r"^[ \t]*GO[ \t]*\r?$", re.MULTILINE | re.IGNORECASE)
_SLOT = re.compile(r"\{\{([a-z_]+)\}\}")


class SqlFile:
    """The named statements of one file."""

    def __init__(self, origin: str, statements: dict[str, str], purposes: dict[str, str]) -> None:
        self.origin = origin
        self.purposes = purposes
        self._statements = statements

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._statements)

    def slots(self, name: str) -> frozenset[str]:
        """The names that ``text`` has to be given for a statement."""
        return frozenset(_SLOT.findall(self._statements[name]))

    def text(self, name: str, /, **identifiers: str) -> str:
        """The statement, with each ``{{slot}}`` replaced. A missing or an unused slot is an error."""
        statement = self._statements[name]
        wanted = set(_SLOT.findall(statement))
        if wanted != set(identifiers):
            raise ConfigurationError(
                "sql_slots",
                happened=f"{self.origin}:{name} has the slots {sorted(wanted)}, given {sorted(identifiers)}.",
            )
        return _SLOT.sub(lambda match: identifiers[match.group(1)], statement)


def go_batches(script: str) -> list[str]:
    """The batches of a script whose lines ``GO`` separate them, as a DBA's tool would send them."""
    return [batch.strip() for batch in _GO.split(script) if batch.strip()]


@cache
def load_sql(package: str, path: str) -> SqlFile:
    """Load a file below an importable package, once a process: ``load_sql("pkg.gates", "sql/mssql_gate.sql")``."""
    text = files(package).joinpath(path).read_text(encoding="utf-8")
    statements: dict[str, list[str]] = {}
    purposes: dict[str, str] = {}
    current: str | None = None
    for line in text.splitlines():
        if match := _NAME.match(line):
            current = match.group("name")
            if current in statements:
                raise ConfigurationError("sql_file", happened=f"{path} names {current} twice.")
            statements[current] = []
        elif current is None:
            if line.strip() and not line.startswith("--"):
                raise ConfigurationError("sql_file", happened=f"{path} has SQL before its first name line.")
        elif current not in purposes:
            if not line.startswith("-- "):
                raise ConfigurationError("sql_file", happened=f"{path}: {current} has no purpose line.")
            purposes[current] = line.removeprefix("-- ").strip()
        else:
            statements[current].append(line)
    bodies = {name: "\n".join(lines).strip() + "\n" for name, lines in statements.items()}
    return SqlFile(path, bodies, purposes)
