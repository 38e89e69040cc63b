"""Collations: which PostgreSQL expression says that two strings are equal, and which orders them."""

from __future__ import annotations

import re

from tsqldev.errors import SqlError
from tsqldev.types import CHARACTER, DEFAULT_COLLATION, SqlType

_COLLATION = re.compile(r"^[A-Za-z][A-Za-z0-9_]*_(BIN2?|(CI|CS)(_A[IS])?)(_\w+)?$", re.IGNORECASE)


def known_collation(name: str) -> str:
    """The collation to use for a name in COLLATE; 448 for what is none."""
    if name.upper() in ("DATABASE_DEFAULT", "CATALOG_DEFAULT"):
        return DEFAULT_COLLATION
    if not _COLLATION.match(name):
        raise SqlError(448, f"Invalid collation '{name}'.")
    return name


def sensitivity(collation: str | None) -> str:
    """bin, ci (case-insensitive), cs (case-sensitive) or ai (neither case nor accents count)."""
    name = (collation or DEFAULT_COLLATION).upper()
    if "_BIN" in name:
        return "bin2"
    if "_CI_AI" in name:
        return "ai"
    return "cs" if "_CS_" in name or name.endswith("_CS") else "ci"


def supplementary(collation: str | None) -> bool:
    """Whether positions and lengths count characters beyond U+FFFF as one: the default collation counts two."""
    name = (collation or "").upper()
    return "_SC" in name or "_140_" in name


def key_sql(type: SqlType, sql: str) -> str:
    """The expression that is equal for what T-SQL calls equal; unique indexes stand on the same text."""
    if type.name in CHARACTER:
        return f"sys.{sensitivity(type.collation)}({sql})"
    if type.name == "datetimeoffset":
        return f"sys.instant({sql})"
    return f"sys.no_zeros({sql})" if type.name in ("varbinary", "image") else sql


def order_sql(type: SqlType, sql: str) -> str:
    """The expression by which values of a type sort (and are < and >)."""
    if type.name in CHARACTER:
        kind = sensitivity(type.collation)
        return f"sys.bin2({sql})" if kind == "bin2" else f"sys.{kind}_order({sql})"
    if type.name == "uniqueidentifier":
        return f"sys.uuid_order({sql})"
    return key_sql(type, sql)
