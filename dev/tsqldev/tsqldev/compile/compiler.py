"""The one way in: `Compiler`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tsqldev.compile.names import CompileCatalog, CompileContext
from tsqldev.errors import unsupported
from tsqldev.interfaces import Column, Compiled
from tsqldev.types import SqlType


class Compiler:
    """Compiles against one catalog; cheap to make, but its cache is worth keeping for the life of the process."""

    def __init__(self, catalog: CompileCatalog, context: CompileContext) -> None:
        self.catalog = catalog
        self.context = context

    def statement(self, text: str) -> Compiled:
        """A SELECT, INSERT, UPDATE, DELETE, MERGE or TRUNCATE TABLE statement, alone in `text`."""
        raise unsupported("statement")

    def expression(self, text: str, target: SqlType | None = None) -> Compiled:
        """A scalar expression as `SELECT <expression>`, converted as an assignment to `target` would."""
        raise unsupported("expression")

    def condition(self, text: str) -> Compiled:
        """A search condition (IF, WHILE) as `SELECT` of one PostgreSQL boolean that is never NULL."""
        raise unsupported("condition")

    def column_condition(self, text: str, columns: Sequence[Column], physical: Sequence[str]) -> str:
        """A CHECK or filtered-index condition as PostgreSQL text over a table's own columns."""
        raise unsupported("condition")

    def column_expression(
        self, text: str, columns: Sequence[Column], physical: Sequence[str], target: SqlType | None = None
    ) -> tuple[str, SqlType]:
        """A DEFAULT (no columns) or computed-column expression as PostgreSQL text, with its T-SQL type."""
        raise unsupported("expression")

    def key(self, column: Column, physical: str) -> str:
        """The PostgreSQL expression on which a unique index or a foreign key of this column must stand."""
        raise unsupported("key")


def rewrite_check(text: str) -> str:
    """A CHECK condition, DEFAULT or index filter as SQL Server stores it (sys.check_constraints.definition)."""
    raise unsupported("rewrite")


def functions_sql() -> str:
    """The script that creates the scalar function library in schema sys; run once, at bootstrap, after CREATE SCHEMA."""
    return (Path(__file__).parent / "functions.sql").read_text(encoding="utf-8")
