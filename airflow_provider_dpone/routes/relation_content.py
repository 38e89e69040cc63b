"""The content of one SQL Server table as a digest that the server computes: rows, and a sum over hashes of typed rows.

Each column becomes bytes that no setting of the session changes: integers, GUIDs and texts as they are stored, numbers
and moments as text of one width in a fixed style. NULL has a mark of its own, and values of varying length carry that
length, so that different rows never give the same bytes. One statement a table; no row leaves the server.

Like `content`, which compares two engines row by row on the client, it finds errors; it is no defence against an
adversary. The forms differ because here nothing is carried: the server that stores a value also hashes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_dpone.contracts.canonical import exact_sha256
from airflow_provider_dpone.drivers import Connection, drain, load_sql, quote_mssql

_SQL = load_sql("airflow_provider_dpone.routes", "sql/relations.sql")
_SCHEMA = "dpone.relation-content.v1"

#: The widest binary that is not unlimited, in bytes.
_NARROW_BYTES = 8000
_UNLIMITED = -1

_FIXED = {"bit": 1, "tinyint": 1, "smallint": 2, "int": 4, "bigint": 8, "uniqueidentifier": 16, "timestamp": 8}
#: Width and style. Style 3 of a float and style 2 of money keep every digit; 121 of a moment is ODBC's canonical form.
_FIXED_TEXT = {
    "float": (32, 3),
    "real": (32, 3),
    "money": (32, 2),
    "smallmoney": (32, 2),
    "date": (10, 121),
    "time": (16, 121),
    "smalldatetime": (23, 121),
    "datetime": (23, 121),
    "datetime2": (27, 121),
    "datetimeoffset": (34, 121),
}
_DECIMAL = ("decimal", "numeric")
_SAME_WIDTH = ("char", "nchar", "binary")
_VARIABLE = ("varchar", "nvarchar", "varbinary")
#: How many columns are added to each other in one chain: a server refuses an expression of a thousand links as too deep.
_CHAIN = 32
_OLD_TEXT = {"text": "varchar(max)", "ntext": "nvarchar(max)"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """A column as sys.columns shows it. `length` is in bytes, -1 for (max); `hidden` says why its values are not seen."""

    name: str
    type: str
    length: int
    precision: int
    scale: int
    collation: str | None
    hidden: str

    def description(self) -> list[object]:
        return [self.name, self.type, self.length, self.precision, self.scale, self.collation]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableContent:
    """Rows, the digest over the columns that were hashed, and the columns that were not, with the reason."""

    rows: int
    sha256: str
    unchecked: dict[str, str]


def read_content(connection: Connection, table: str, columns: Sequence[TableColumn]) -> TableContent:
    """Hash `table` (a quoted name) on the server, on an observer's connection.

    A column whose type has no exact bytes, that is masked or encrypted, is named in `unchecked`. A computed column
    follows from the others: it is left out, and named as well.
    """
    forms: list[str] = []
    hashed: list[list[object]] = []
    unchecked: dict[str, str] = {}
    width = 0
    for column in columns:
        form = None if column.hidden else _form(column)
        if form is None:
            unchecked[column.name] = column.hidden or f"type {column.type}"
            continue
        text, size = form
        width = _UNLIMITED if _UNLIMITED in (width, size) else width + size
        forms.append(text.strip())
        hashed.append(column.description())
    row = _row(forms, narrow=0 <= width <= _NARROW_BYTES)
    ((rows, total),) = drain(connection, _SQL.text("content", row=row, table=table))[0]
    document = {"schema": _SCHEMA, "columns": hashed, "rows": int(rows), "sum": str(int(total or 0))}
    return TableContent(rows=int(rows), sha256=exact_sha256(document), unchecked=unchecked)


def _row(forms: Sequence[str], *, narrow: bool) -> str:
    """All columns as one value. Each chain begins with a value that says whether what is added to it may be cut."""
    first = _SQL.text("narrow_row" if narrow else "wide_row").strip()
    chains = [" + ".join([first, *forms[start : start + _CHAIN]]) for start in range(0, len(forms), _CHAIN)]
    return " + ".join(f"({chain})" for chain in chains) or first


def _form(column: TableColumn) -> tuple[str, int] | None:
    """The SQL that gives a column's bytes, and how many they are at most; None for a type without exact bytes."""
    quoted, kind = quote_mssql(column.name), column.type
    if kind in _FIXED or kind in _SAME_WIDTH:
        size = _FIXED.get(kind, column.length)
        return _SQL.text("fixed", column=quoted, bytes=str(size)), 1 + size
    if kind in _FIXED_TEXT or kind in _DECIMAL:
        # A decimal has a sign, a point and a leading zero beside its digits.
        size, style = _FIXED_TEXT.get(kind, (column.precision + 3, 0))
        return _SQL.text("fixed_text", column=quoted, bytes=str(size), style=str(style)), 1 + size
    if kind in _OLD_TEXT:
        return _SQL.text("old_text", column=quoted, successor=_OLD_TEXT[kind]), _UNLIMITED
    if kind in _VARIABLE or kind == "image":
        if kind == "image" or column.length == _UNLIMITED:
            return _SQL.text("variable", column=quoted, bytes="max"), _UNLIMITED
        return _SQL.text("variable", column=quoted, bytes=str(column.length)), 9 + column.length
    return None
