"""Files of the server's machine: BULK INSERT and OPENROWSET(BULK ...), for those who may ADMINISTER BULK OPERATIONS."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tsqldev.errors import SqlError, unsupported
from tsqldev.interfaces import Column, TableInfo
from tsqldev.session import queries
from tsqldev.session.lexer import NUMBER, PUNCT, STRING, WORD, Token, near, split_commas
from tsqldev.session.split import Simple
from tsqldev.types import BINARY, CHARACTER, MAX, nvarchar

if TYPE_CHECKING:
    from tsqldev.session.interp import Interpreter

_LARGEST = 512 * 1024 * 1024
# OEM is the default of BULK INSERT: code page 437 where the server speaks English.
_CODE_PAGES = {"OEM": "cp437", "ACP": "cp1252", "RAW": "cp1252", "1252": "cp1252", "437": "cp437", "65001": "utf-8"}
# Option -> the hint of a bulk load that it is.
_SWITCHES = {
    "TABLOCK": "TABLOCK",
    "CHECK_CONSTRAINTS": "CHECK_CONSTRAINTS",
    "FIRE_TRIGGERS": "FIRE_TRIGGERS",
    "KEEPNULLS": "KEEP_NULLS",
    "KEEPIDENTITY": "KEEP_IDENTITY",
}
_VALUES = frozenset({"FIELDTERMINATOR", "ROWTERMINATOR", "CODEPAGE", "DATAFILETYPE", "FORMAT", "FIELDQUOTE"})
_COUNTS = frozenset({"FIRSTROW", "LASTROW", "ROWS_PER_BATCH", "KILOBYTES_PER_BATCH"})


def _read(interp: Interpreter, path: str) -> bytes:
    session = interp.session
    if not session.access.holds(session.principal, "SERVER", 0, "ADMINISTER BULK OPERATIONS"):
        raise SqlError(4834, "You do not have permission to use the bulk load statement.")
    file = Path(path)
    try:
        if file.is_absolute() and file.is_file() and file.stat().st_size > _LARGEST:
            raise unsupported(f"bulk load of a file of more than {_LARGEST} bytes")
        if file.is_absolute():
            return file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        pass  # the same answer as for a path that is none here
    except (OSError, ValueError) as error:
        code = getattr(error, "errno", None) or 87
        raise SqlError(
            4861, f'Cannot bulk load because the file "{path}" could not be opened. Operating system error code {code}.'
        ) from error
    raise SqlError(4860, f'Cannot bulk load. The file "{path}" does not exist or you don\'t have file access rights.')


def single(interp: Interpreter, kind: str, path: str) -> object:
    """The value of OPENROWSET(BULK 'path', kind)."""
    data = _read(interp, path)
    if kind == "SINGLE_BLOB":
        return data
    if kind == "SINGLE_CLOB":
        return _decoded(data, "cp1252")
    if not data.startswith(codecs.BOM_UTF16_LE):
        raise SqlError(
            4809, "SINGLE_NCLOB requires a UNICODE (widechar) input file. The file specified is not Unicode."
        )
    return _decoded(data[2:], "utf-16-le")


def _decoded(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise unsupported(f"bytes of a bulk file that are no text of {encoding}") from error


class _Options:
    """WITH (...) of BULK INSERT. What is not emulated is refused by name."""

    def __init__(self, items: list[Token]) -> None:
        self.hints: set[str] = set()
        self.texts: dict[str, str] = {}
        self.counts: dict[str, int] = {}
        for part in split_commas(items) if items else ():
            self._take(part)
        file_type = self.texts.get("DATAFILETYPE", "char").lower()
        if file_type not in ("char", "widechar"):
            raise unsupported(f"BULK INSERT with DATAFILETYPE = '{file_type}'")
        if self.texts.get("FORMAT", "CSV").upper() != "CSV":
            raise unsupported(f"BULK INSERT with FORMAT = '{self.texts['FORMAT']}'")
        page = self.texts.get("CODEPAGE", "OEM").upper()
        if page not in _CODE_PAGES:
            raise unsupported(f"BULK INSERT with CODEPAGE = '{page}'")
        self.encoding = "utf-16-le" if file_type == "widechar" else _CODE_PAGES[page]
        self.csv = "FORMAT" in self.texts
        self.quote = self.texts.get("FIELDQUOTE", '"') if self.csv else ""
        self.field = _terminator(self.texts.get("FIELDTERMINATOR", "," if self.csv else "\\t"))
        self.row = _terminator(self.texts.get("ROWTERMINATOR", "\\n"))

    def _take(self, part: list[Token]) -> None:
        if not part or part[0].kind != WORD:
            raise SqlError(102, "Incorrect syntax near ','.", severity=15)
        name = part[0].word
        value = part[2] if len(part) == 3 and part[1].text == "=" else None
        if name in _SWITCHES and len(part) == 1:
            self.hints.add(_SWITCHES[name])
        elif name == "ORDER" and len(part) > 1 and part[1].text == "(":
            return
        elif name in _VALUES and value is not None and value.kind == STRING:
            self.texts[name] = value.value
        elif name in _COUNTS and value is not None and value.kind == NUMBER and value.text.isdigit():
            self.counts[name] = int(value.text)
        else:
            raise unsupported(f"BULK INSERT with {name}")


def _terminator(text: str) -> str:
    """`\\n` stands for carriage return and line feed; a line feed alone is written 0x0a."""
    if text[:2].lower() == "0x" and len(text) > 2:
        try:
            return bytes.fromhex(text[2:]).decode("latin-1")
        except ValueError as error:
            raise unsupported(f"the terminator {text}") from error
    if text == "\\n":
        return "\r\n"
    plain = text.replace("\\t", "\t").replace("\\n", "\n").replace("\\r", "\r").replace("\\0", "\0")
    if not plain:
        raise unsupported("an empty terminator")
    return plain


def insert(interp: Interpreter, node: Simple) -> None:
    """BULK INSERT table FROM 'file' [WITH (...)]."""
    items = node.tokens
    if len(items) < 2 or items[1].word != "INSERT":
        raise near(items[min(1, len(items) - 1)])
    source = next((at for at, token in enumerate(items) if token.word == "FROM"), 0)
    if source <= 2 or source + 1 >= len(items) or items[source + 1].kind != STRING:
        raise near(items[min(source + 1, len(items) - 1)])
    rest = items[source + 2 :]
    closed = len(rest) >= 3 and rest[0].word == "WITH" and rest[1].text == "(" and rest[-1].text == ")"
    if rest and not (closed and rest[-1].kind == PUNCT):
        raise near(rest[0])
    options = _Options(rest[2:-1] if rest else [])
    session = interp.session
    session.sync()
    target = node.part(items[2:source])
    data = _read(interp, items[source + 1].value)
    table = session.bulk.table(interp, queries.split_name(target))
    _may_alter(interp, table, options)
    if any(column.type.name == "rowversion" for column in table.columns):
        raise unsupported("BULK INSERT into a table with a rowversion column")
    columns = [column for column in table.columns if not column.computed]
    staged = [Column(column.name, nvarchar(MAX)) for column in columns]
    session.bulk.load_into(
        interp,
        table,
        target,
        [column.name for column in columns],
        staged,
        _rows(data, options, len(columns)),
        frozenset(options.hints),
        lambda name: _check(interp, name, columns, options),
    )


def _may_alter(interp: Interpreter, table: TableInfo, options: _Options) -> None:
    """To load identity values, or past constraints, one must be allowed to alter the table."""
    session = interp.session
    if not table.object_id or session.access.holds(session.principal, "OBJECT", table.object_id, "ALTER"):
        return
    rows, _ = session.backend.run(
        f"select exists (select from pg_constraint where contype in ('c', 'f') and conrelid = '{table.relation}'::regclass)"
    )
    if "KEEP_IDENTITY" in options.hints or (rows[0][0] and "CHECK_CONSTRAINTS" not in options.hints):
        raise SqlError(
            1088,
            f'Cannot find the object "{table.name}" because it does not exist or you do not have permissions.',
            state=11,
        )


def _rows(data: bytes, options: _Options, width: int) -> Iterator[Sequence[object]]:
    """The fields of the file as text, NULL for an empty one. Only terminators part them, as BULK INSERT reads."""
    text = _decoded(data, options.encoding).removeprefix("\ufeff")
    first, last = options.counts.get("FIRSTROW", 1), options.counts.get("LASTROW", 0)
    at = number = 0
    while at < len(text) and not (last and number >= last):
        number += 1
        row: list[object] = []
        for column in range(1, width + 1):
            value, at = _field(text, at, options, last=column == width, row=number, column=column)
            row.append(value)
        if number >= first:
            yield row


def _field(text: str, at: int, options: _Options, *, last: bool, row: int, column: int) -> tuple[str | None, int]:
    terminator = options.row if last else options.field
    value: str | None = None
    if options.quote and text.startswith(options.quote, at):
        parts, at = [], at + 1
        while True:
            closing = text.find(options.quote, at)
            if closing < 0:
                raise _end_of_file()
            parts.append(text[at:closing])
            at = closing + 1
            if not text.startswith(options.quote, at):
                break
            parts.append(options.quote)
            at += 1
        value = "".join(parts)
        if not text.startswith(terminator, at) and not (last and at == len(text)):
            raise _too_long(row, column)
    end = text.find(terminator, at)
    if end < 0 and not last:
        raise _end_of_file()
    end = len(text) if end < 0 else end
    if value is None:
        value = text[at:end] or None
    return value, min(end + len(terminator), len(text))


def _end_of_file() -> SqlError:
    return SqlError(4832, "Bulk load: An unexpected end of file was encountered in the data file.")


def _too_long(row: int, column: int) -> SqlError:
    return SqlError(
        4866,
        f"The bulk load failed. The column is too long in the data file for row {row}, column {column}. Verify that the "
        "field terminator and row terminator are specified correctly.",
    )


def _check(interp: Interpreter, source: str, columns: Sequence[Column], options: _Options) -> None:
    """The first value that the column cannot hold is named by its row and column. Here it stops the load."""
    session = interp.session
    first = options.counts.get("FIRSTROW", 1)
    for number, column in enumerate(columns, 1):
        type = column.type
        if type.name in BINARY or (type.name in CHARACTER and type.length in (None, MAX)):
            continue
        if type.name in CHARACTER:
            problem, code = "truncation", 4863
            wrong = f"LEN([c{number}] + N'.') - 1 > {type.length}"
        else:
            problem, code = "type mismatch or invalid character for the specified codepage", 4864
            wrong = f"[c{number}] IS NOT NULL AND TRY_CONVERT({type}, [c{number}]) IS NULL"
        compiled = interp.compile(f"SELECT IIF({wrong}, 1, 0) AS wrong FROM {source}")
        found, _ = session.backend.run(
            f"select n from (select row_number() over () as n, * from ({compiled.sql}) q) r where r.c1 = 1 limit 1",
            *queries.arguments(interp, compiled),
        )
        if found:
            raise SqlError(
                code,
                f"Bulk load data conversion error ({problem}) for row {found[0][0] + first - 1}, column {number} "
                f"({column.name}).",
            )
