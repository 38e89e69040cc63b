"""What stands between the parentheses of CREATE TABLE, and after ALTER TABLE ... ADD: parsed, nothing resolved."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from tsqldev.catalog.tokens import BINARY, NAME, NUMBER, STRING, SYMBOL, VARIABLE, WORD, Reader
from tsqldev.errors import SqlError, unsupported
from tsqldev.types import CHARACTER, MAX, SqlType

NO_ACTION, CASCADE, SET_NULL, SET_DEFAULT = range(4)


@dataclass(frozen=True, slots=True)
class DefaultSpec:
    name: str | None
    text: str


@dataclass(frozen=True, slots=True)
class CheckSpec:
    name: str | None
    text: str
    column: str | None = None


@dataclass(frozen=True, slots=True)
class IndexOptions:
    fill_factor: int = 0
    pad_index: bool = False
    ignore_dup_key: bool = False
    allow_row_locks: bool = True
    allow_page_locks: bool = True
    optimize_for_sequential_key: bool = False
    compression: int = 0
    drop_existing: bool = False


@dataclass(frozen=True, slots=True)
class KeySpec:
    """A PRIMARY KEY or UNIQUE constraint, or, where `constraint` is false, an index."""

    name: str | None
    primary: bool
    clustered: bool | None
    columns: tuple[tuple[str, bool], ...]
    constraint: bool = True
    unique: bool = True
    included: tuple[str, ...] = ()
    filter: str | None = None
    columnstore: bool = False
    options: IndexOptions = field(default_factory=IndexOptions)


@dataclass(frozen=True, slots=True)
class ForeignSpec:
    name: str | None
    columns: tuple[str, ...]
    target: tuple[str, ...]
    target_columns: tuple[str, ...]
    on_delete: int = NO_ACTION
    on_update: int = NO_ACTION


Constraint = CheckSpec | KeySpec | ForeignSpec


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """`type` is None for a computed column; `nullable` None where neither NULL nor NOT NULL was written."""

    name: str
    type: SqlType | None
    nullable: bool | None = None
    collation: str | None = None
    identity: tuple[int, int] | None = None
    computed: str | None = None
    persisted: bool = False
    rowguidcol: bool = False
    sparse: bool = False
    masked: str | None = None
    default: DefaultSpec | None = None


@dataclass(slots=True)
class TableSpec:
    columns: list[ColumnSpec] = field(default_factory=list)
    constraints: list[Constraint] = field(default_factory=list)
    defaults: list[tuple[str, DefaultSpec]] = field(default_factory=list)


_SYNONYMS = {
    "integer": "int",
    "dec": "decimal",
    "character": "char",
    "timestamp": "rowversion",
    "charvarying": "varchar",
    "charactervarying": "varchar",
    "binaryvarying": "varbinary",
    "doubleprecision": "float",
    "nationalchar": "nchar",
    "nationalcharacter": "nchar",
    "nationalcharvarying": "nvarchar",
    "nationalcharactervarying": "nvarchar",
    "nationaltext": "ntext",
}
_FIXED = frozenset(
    [
        *("bit", "tinyint", "smallint", "int", "bigint", "money", "smallmoney", "real", "float", "rowversion"),
        *("uniqueidentifier", "date", "datetime", "smalldatetime", "text", "ntext", "image", "xml", "sysname"),
    ]
)
_SIZED = {"char": 8000, "varchar": 8000, "nchar": 4000, "nvarchar": 4000, "binary": 8000, "varbinary": 8000}
_COLLATION = re.compile(r"(SQL_)?[A-Za-z0-9_]+_(BIN2?|C[IS]_A[IS](_KS)?(_WS)?(_SC)?(_VSS)?(_UTF8)?)", re.IGNORECASE)


def collation_name(reader: Reader) -> str:
    name = reader.name()
    if name.upper() != "DATABASE_DEFAULT" and not _COLLATION.fullmatch(name):
        raise SqlError(448, f"Invalid collation '{name}'.")
    return name


def read_type(reader: Reader) -> SqlType:
    """A data type with its size. The collation of a character type is left open."""
    parts = [reader.name()]
    while reader.peek("."):
        reader.next()
        parts.append(reader.name())
    name = parts[-1].lower()
    if len(parts) == 1:
        for word in ("varying", "precision", "char", "character", "text"):
            if name in ("char", "character", "binary", "double", "national", "nationalchar", "nationalcharacter") and (
                reader.take(word.upper())
            ):
                name += word
        if name.startswith("national") and reader.take("VARYING"):
            name += "varying"
    name = _SYNONYMS.get(name, name)
    sizes = _sizes(reader)
    if name in _SIZED:
        length = sizes[0] if sizes else 1
        if len(sizes) > 1 or (length == MAX and name in ("char", "nchar", "binary")):
            raise reader.error()
        if length == 0 or length < MAX:
            raise SqlError(1001, f"Line 1: Length or precision specification {length} is invalid.", severity=15)
        if length > _SIZED[name]:
            raise SqlError(
                131,
                f"The size ({length}) given to the type '{name}' exceeds the maximum allowed for any data type"
                f" ({_SIZED[name]}).",
                severity=15,
            )
        return SqlType(name, length)
    if name in ("decimal", "numeric"):
        precision = sizes[0] if sizes else 18
        scale = sizes[1] if len(sizes) > 1 else 0
        if not 1 <= precision <= 38:
            raise SqlError(
                2750,
                f"Column or parameter #1: Specified column precision {precision} is greater than the maximum"
                " precision of 38.",
            )
        if scale > precision:
            raise SqlError(
                2751,
                f"Column or parameter #1: Specified column scale {scale} is greater than the specified precision"
                f" of {precision}.",
            )
        return SqlType(name, precision=precision, scale=scale)
    if name in ("time", "datetime2", "datetimeoffset"):
        scale = sizes[0] if sizes else 7
        if not 0 <= scale <= 7:
            raise SqlError(1002, f"Line 1: Specified scale {scale} is invalid.", severity=15)
        return SqlType(name, scale=scale)
    if name == "float":
        return SqlType("real" if sizes and sizes[0] <= 24 else "float")
    if name in _FIXED:
        if sizes:
            raise SqlError(
                2716, f"Column, parameter, or variable #1: Cannot specify a column width on data type {name}."
            )
        if name in ("text", "ntext", "image", "xml"):
            return SqlType(name, MAX)
        return SqlType(name, 128 if name == "sysname" else None)
    if name in ("sql_variant", "hierarchyid", "geometry", "geography", "cursor", "table"):
        raise unsupported(f"the data type {name}")
    raise SqlError(2715, f"Column, parameter, or variable #1: Cannot find data type {'.'.join(parts)}.")


def _sizes(reader: Reader) -> list[int]:
    sizes: list[int] = []
    if reader.take("("):
        while True:
            sizes.append(MAX if reader.take("MAX") else reader.integer())
            if not reader.take(","):
                break
        reader.expect(")")
    return sizes


def read_elements(reader: Reader) -> TableSpec:
    """A comma-separated list of columns, constraints and indexes, up to the closing parenthesis or the end."""
    spec = TableSpec()
    while True:
        read_element(reader, spec)
        if not reader.take(","):
            return spec
        if reader.peek(")"):
            return spec


def read_element(reader: Reader, spec: TableSpec) -> None:
    if reader.peek("PERIOD", "FOR"):
        raise unsupported("system-versioned tables")
    if (
        reader.peek("CONSTRAINT")
        or reader.peek("PRIMARY")
        or reader.peek("UNIQUE")
        or reader.peek("CHECK")
        or reader.peek("FOREIGN")
        or reader.peek("DEFAULT")
    ):
        _table_constraint(reader, spec)
    elif reader.token.kind == WORD and reader.token.value == "INDEX":
        reader.next()
        spec.constraints.append(_inline_index(reader, None))
    else:
        _column(reader, spec)


def _table_constraint(reader: Reader, spec: TableSpec) -> None:
    name = reader.name() if reader.take("CONSTRAINT") else None
    if reader.take("CHECK"):
        _no_replication(reader)
        spec.constraints.append(CheckSpec(name, reader.parenthesised()))
    elif reader.take("FOREIGN"):
        reader.expect("KEY")
        columns = read_names(reader)
        spec.constraints.append(_references(reader, name, columns))
    elif reader.take("DEFAULT"):
        text = default_text(reader)
        reader.expect("FOR")
        spec.defaults.append((reader.name(), DefaultSpec(name, text)))
        reader.take("WITH", "VALUES")
    else:
        spec.constraints.append(_key(reader, name, None))


def _key(reader: Reader, name: str | None, column: str | None) -> KeySpec:
    primary = reader.take("PRIMARY")
    if primary:
        reader.expect("KEY")
    else:
        reader.expect("UNIQUE")
    clustered = True if reader.take("CLUSTERED") else False if reader.take("NONCLUSTERED") else None
    if reader.peek("NOT", "ENFORCED"):
        raise unsupported("NOT ENFORCED constraints")
    if column is not None and not reader.peek("("):
        columns: tuple[tuple[str, bool], ...] = ((column, False),)
    else:
        columns = key_columns(reader)
    options = read_options(reader)
    read_filegroup(reader)
    return KeySpec(name, primary, clustered, columns, options=options)


def _inline_index(reader: Reader, column: str | None) -> KeySpec:
    name = reader.name()
    unique = reader.take("UNIQUE")
    clustered = reader.take("CLUSTERED")
    if not clustered:
        reader.take("NONCLUSTERED")
    columnstore = reader.take("COLUMNSTORE")
    columns: tuple[tuple[str, bool], ...] = ()
    if reader.peek("("):
        columns = key_columns(reader)
    elif column is not None:
        columns = ((column, False),)
    included = read_names(reader) if reader.take("INCLUDE") else ()
    filter_text = index_filter(reader) if reader.take("WHERE") else None
    options = read_options(reader)
    read_filegroup(reader)
    return KeySpec(name, False, clustered, columns, False, unique, included, filter_text, columnstore, options=options)


def key_columns(reader: Reader) -> tuple[tuple[str, bool], ...]:
    reader.expect("(")
    columns = []
    while True:
        name = reader.name()
        descending = reader.take("DESC")
        if not descending:
            reader.take("ASC")
        columns.append((name, descending))
        if not reader.take(","):
            break
    reader.expect(")")
    return tuple(columns)


def index_filter(reader: Reader) -> str:
    """The text of a filter: up to WITH ( or ON at the top level, or the end."""
    start = reader.token.start
    depth = 0
    while True:
        token = reader.token
        if token.kind == "end" or (depth == 0 and token.kind == SYMBOL and token.value in (";", ",")):
            break
        if depth == 0 and token.kind == WORD and token.value in ("WITH", "ON"):
            break
        if token.kind == SYMBOL and token.value in "()":
            if token.value == ")" and depth == 0:
                break
            depth += 1 if token.value == "(" else -1
        reader.next()
    return reader.text[start : reader.tokens[reader.at - 1].end]


def read_names(reader: Reader) -> tuple[str, ...]:
    reader.expect("(")
    names = [reader.name()]
    while reader.take(","):
        names.append(reader.name())
    reader.expect(")")
    return tuple(names)


_COMPRESSION = {"NONE": 0, "ROW": 1, "PAGE": 2, "COLUMNSTORE": 3, "COLUMNSTORE_ARCHIVE": 4}
# Options that change how an index is built or stored, and nothing that a client could see.
_WITHOUT_EFFECT = frozenset(
    [
        *("ONLINE", "SORT_IN_TEMPDB", "MAXDOP", "STATISTICS_NORECOMPUTE", "STATISTICS_INCREMENTAL", "RESUMABLE"),
        *("MAX_DURATION", "COMPRESSION_DELAY", "XML_COMPRESSION"),
    ]
)


def read_options(reader: Reader) -> IndexOptions:
    options = IndexOptions()
    if reader.take("WITH", "FILLFACTOR"):
        reader.expect("=")
        return replace(options, fill_factor=reader.integer())
    if not reader.take("WITH"):
        return options
    reader.expect("(")
    while True:
        name = reader.name().upper()
        reader.expect("=")
        value = reader.next()
        on = value.value == "ON"
        if name in _WITHOUT_EFFECT:
            if reader.peek("(") or value.kind not in (WORD, NUMBER):
                raise unsupported(f"the index option {name} with a list")
            reader.take("MINUTES")
        elif name == "FILLFACTOR":
            options = replace(options, fill_factor=int(value.value))
        elif name == "PAD_INDEX":
            options = replace(options, pad_index=on)
        elif name == "IGNORE_DUP_KEY":
            if on:
                raise unsupported("IGNORE_DUP_KEY = ON")
        elif name == "ALLOW_ROW_LOCKS":
            options = replace(options, allow_row_locks=on)
        elif name == "ALLOW_PAGE_LOCKS":
            options = replace(options, allow_page_locks=on)
        elif name == "OPTIMIZE_FOR_SEQUENTIAL_KEY":
            options = replace(options, optimize_for_sequential_key=on)
        elif name == "DROP_EXISTING":
            options = replace(options, drop_existing=on)
        elif name == "DATA_COMPRESSION" and value.value in _COMPRESSION:
            options = replace(options, compression=_COMPRESSION[value.value])
        else:
            raise unsupported(f"the index option {name}")
        if not reader.take(","):
            break
    reader.expect(")")
    return options


def read_filegroup(reader: Reader) -> None:
    for word in ("ON", "TEXTIMAGE_ON"):
        if reader.token.kind == WORD and reader.take(word):
            name = reader.name_or_string()
            if name.upper() not in ("PRIMARY", "DEFAULT"):
                raise unsupported(f"the filegroup or partition scheme {name}")


def _references(reader: Reader, name: str | None, columns: tuple[str, ...]) -> ForeignSpec:
    reader.expect("REFERENCES")
    target = reader.qualified()
    target_columns = read_names(reader) if reader.peek("(") else ()
    actions = {"DELETE": NO_ACTION, "UPDATE": NO_ACTION}
    while reader.peek("ON", "DELETE") or reader.peek("ON", "UPDATE"):
        reader.next()
        event = reader.next().value
        if reader.take("NO", "ACTION"):
            actions[event] = NO_ACTION
        elif reader.take("CASCADE"):
            actions[event] = CASCADE
        elif reader.take("SET", "NULL"):
            actions[event] = SET_NULL
        elif reader.take("SET", "DEFAULT"):
            actions[event] = SET_DEFAULT
        else:
            raise reader.error()
    _no_replication(reader)
    return ForeignSpec(name, columns, target, target_columns, actions["DELETE"], actions["UPDATE"])


def _no_replication(reader: Reader) -> None:
    if reader.peek("NOT", "FOR", "REPLICATION"):
        raise unsupported("NOT FOR REPLICATION")


def default_text(reader: Reader) -> str:
    """A default: a parenthesised expression, a constant with its sign, or a function call, as written."""
    start = reader.token.start
    if reader.peek("("):
        reader.parenthesised()
        return reader.text[start : reader.tokens[reader.at - 1].end]
    if not reader.take("-"):
        reader.take("+")
    token = reader.next()
    if token.kind not in (WORD, NAME, STRING, NUMBER, BINARY, VARIABLE):
        raise reader.error()
    while reader.peek("."):
        reader.next()
        reader.name()
    if token.kind in (WORD, NAME) and reader.peek("("):
        reader.parenthesised()
    return reader.text[start : reader.tokens[reader.at - 1].end]


def _column(reader: Reader, spec: TableSpec) -> None:
    name = reader.name()
    if reader.take("AS"):
        start = reader.token.start
        if not reader.peek("("):
            while not (reader.peek(",") or reader.peek(")") or reader.peek("PERSISTED") or reader.token.kind == "end"):
                reader.next()
                if reader.peek("("):
                    reader.parenthesised()
        else:
            reader.parenthesised()
        text = reader.text[start : reader.tokens[reader.at - 1].end]
        column = ColumnSpec(name, None, computed=text, persisted=reader.take("PERSISTED"))
    elif reader.token.kind == WORD and reader.token.value == "TIMESTAMP" and reader.ahead().value in (",", ")"):
        reader.next()
        column = ColumnSpec(name, SqlType("rowversion"))
    else:
        column = ColumnSpec(name, read_type(reader))
    while True:
        changed = _column_property(reader, column, spec)
        if changed is None:
            break
        column = changed
    spec.columns.append(column)


def _column_property(reader: Reader, column: ColumnSpec, spec: TableSpec) -> ColumnSpec | None:
    """The column with its next property, or None where none follows."""
    if reader.take("COLLATE"):
        if column.type is None or column.type.name not in CHARACTER:
            raise SqlError(451, f"Cannot use a collation on the column '{column.name}'.")
        return replace(column, collation=collation_name(reader))
    if reader.take("NOT", "NULL"):
        return replace(column, nullable=False)
    if reader.take("NULL"):
        return replace(column, nullable=True)
    if reader.take("IDENTITY"):
        seed, increment = 1, 1
        if reader.take("("):
            seed = reader.integer()
            reader.expect(",")
            increment = reader.integer()
            reader.expect(")")
        _no_replication(reader)
        return replace(column, identity=(seed, increment))
    if reader.take("ROWGUIDCOL"):
        return replace(column, rowguidcol=True)
    if reader.take("SPARSE"):
        return replace(column, sparse=True)
    if reader.take("MASKED"):
        return replace(column, masked=mask_function(reader))
    if reader.take("INDEX"):
        spec.constraints.append(_inline_index(reader, column.name))
        return column
    name = reader.name() if reader.take("CONSTRAINT") else None
    if reader.take("DEFAULT"):
        if column.default is not None:
            raise SqlError(1781, "Column already has a DEFAULT bound to it.")
        default = DefaultSpec(name, default_text(reader))
        reader.take("WITH", "VALUES")
        return replace(column, default=default)
    if reader.take("CHECK"):
        _no_replication(reader)
        spec.constraints.append(CheckSpec(name, reader.parenthesised(), column.name))
        return column
    if reader.peek("PRIMARY") or reader.peek("UNIQUE"):
        spec.constraints.append(_key(reader, name, column.name))
        return column
    if reader.take("FOREIGN"):
        reader.expect("KEY")
    if reader.peek("REFERENCES"):
        spec.constraints.append(_references(reader, name, (column.name,)))
        return column
    if name is not None:
        raise reader.error()
    return None


def mask_function(reader: Reader) -> str:
    reader.expect("WITH", "(", "FUNCTION", "=")
    text = reader.string()
    reader.expect(")")
    return text


def unwrapped(text: str) -> str:
    """An expression without the parentheses around the whole of it."""
    text = text.strip()
    while text.startswith("("):
        reader = Reader(text)
        inner = reader.parenthesised()
        if reader.token.kind != "end":
            break
        text = inner.strip()
    return text
