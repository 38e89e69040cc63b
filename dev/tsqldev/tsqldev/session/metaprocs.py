"""System procedures through which drivers ask for metadata, each one a query over the catalog views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tsqldev.errors import SqlError
from tsqldev.interfaces import Column
from tsqldev.session import scratch
from tsqldev.session.frames import Frame, Scope
from tsqldev.session.split import Simple
from tsqldev.types import BIT, CHARACTER, INT, MAX, SMALLINT, TINYINT, UNICODE, SqlType, nvarchar, varbinary

if TYPE_CHECKING:
    from tsqldev.session.interp import Interpreter
    from tsqldev.session.procedures import Argument

_NAME = nvarchar(128)


def _answer(interp: Interpreter, columns: Sequence[tuple[str, SqlType]], rows: Sequence[Sequence[object]]) -> None:
    sink = interp.session.sink
    sink.columns([Column(name, type) for name, type in columns])
    sink.rows(rows)
    interp.session.rowcount = len(rows)
    sink.done(len(rows), command="SELECT")


# -- sp_datatype_info_100

_TYPE_COLUMNS: tuple[tuple[str, SqlType], ...] = (
    ("TYPE_NAME", _NAME),
    ("DATA_TYPE", SMALLINT),
    ("PRECISION", INT),
    ("LITERAL_PREFIX", nvarchar(32)),
    ("LITERAL_SUFFIX", nvarchar(32)),
    ("CREATE_PARAMS", nvarchar(32)),
    ("NULLABLE", SMALLINT),
    ("CASE_SENSITIVE", SMALLINT),
    ("SEARCHABLE", SMALLINT),
    ("UNSIGNED_ATTRIBUTE", SMALLINT),
    ("MONEY", SMALLINT),
    ("AUTO_INCREMENT", SMALLINT),
    ("LOCAL_TYPE_NAME", _NAME),
    ("MINIMUM_SCALE", SMALLINT),
    ("MAXIMUM_SCALE", SMALLINT),
    ("SQL_DATA_TYPE", SMALLINT),
    ("SQL_DATETIME_SUB", SMALLINT),
    ("NUM_PREC_RADIX", INT),
    ("INTERVAL_PRECISION", SMALLINT),
    ("USERTYPE", SMALLINT),
)


def _text(name: str, number: int, size: int, prefix: str, parameters: str | None, user: int) -> tuple[object, ...]:
    return (name, number, size, prefix, "'", parameters, 1, 0, 3, None, 0, None, name, None, None, number, None, None,
            None, user)  # fmt: skip


def _number(name: str, number: int, size: int, scale: int | None, unsigned: int, user: int) -> tuple[object, ...]:
    return (name, number, size, None, None, None, 1, 0, 2, unsigned, 0, 0, name, scale, scale, number, None, 10, None,
            user)  # fmt: skip


def _moment(name: str, number: int, size: int, scale: int, sub: int | None, user: int) -> tuple[object, ...]:
    return (name, number, size, "'", "'", None, 1, 0, 3, None, 0, None, name, 0, scale, 9 if sub else number, sub,
            None, None, user)  # fmt: skip


_TYPES: tuple[tuple[object, ...], ...] = (
    _moment("datetimeoffset", -155, 34, 7, None, 0),
    _moment("time", -154, 16, 7, None, 0),
    _text("xml", -152, 0, "N'", None, 0),
    _text("uniqueidentifier", -11, 36, "'", None, 37),
    _text("ntext", -10, 1073741823, "N'", None, 0),
    _text("nvarchar", -9, 4000, "N'", "max length", 0),
    _text("sysname", -9, 128, "N'", None, 18),
    _text("nchar", -8, 4000, "N'", "length", 0),
    _number("bit", -7, 1, 0, 1, 16),
    _number("tinyint", -6, 3, 0, 1, 5),
    _number("bigint", -5, 19, 0, 0, 0),
    _text("image", -4, 2147483647, "0x", None, 20),
    _text("varbinary", -3, 8000, "0x", "max length", 4),
    _text("binary", -2, 8000, "0x", "length", 3),
    _text("timestamp", -2, 8, "0x", None, 80),
    _text("text", -1, 2147483647, "'", None, 19),
    _text("char", 1, 8000, "'", "length", 1),
    _number("numeric", 2, 38, 38, 0, 10),
    _number("decimal", 3, 38, 38, 0, 24),
    _number("money", 3, 19, 4, 0, 11),
    _number("smallmoney", 3, 10, 4, 0, 21),
    _number("int", 4, 10, 0, 0, 7),
    _number("smallint", 5, 5, 0, 0, 6),
    _number("float", 6, 53, None, 0, 8),
    _number("real", 7, 24, None, 0, 23),
    _moment("date", 91, 10, 0, 1, 0),
    _moment("datetime2", 93, 27, 7, 3, 0),
    _moment("datetime", 93, 23, 3, 3, 12),
    _moment("smalldatetime", 93, 16, 0, 3, 22),
    _text("varchar", 12, 8000, "'", "max length", 2),
)


def sp_datatype_info(interp: Interpreter, arguments: list[Argument]) -> int:
    wanted = 0
    if arguments and arguments[0].value is not None and arguments[0].name.lower() in ("", "@data_type"):
        wanted = int(str(arguments[0].value))
    rows = [row for row in _TYPES if wanted in (0, row[1])]
    _answer(interp, _TYPE_COLUMNS, sorted(rows, key=lambda row: int(str(row[1]))))  # the closest type first, as listed
    return 0


def sp_tablecollations(interp: Interpreter, arguments: list[Argument]) -> int:
    """The collations of a table's columns: what a bulk load of a driver asks first."""
    from tsqldev.session.queries import split_name

    name = str(arguments[0].value) if arguments and arguments[0].value is not None else ""
    parts = split_name(name)
    session = interp.session
    table = interp.local_table(parts) or session.catalog.resolve(
        parts, session.principal.database, interp.frame.default_schema
    )
    columns = getattr(table, "columns", ())
    rows = [(column.column_id, column.name, _collation_id(column.type), column.type.collation) for column in columns]
    _answer(
        interp,
        (("colid", INT), ("name", _NAME), ("tds_collation", varbinary(5)), ("collation", _NAME)),
        rows,
    )
    return 0


def _collation_id(type: SqlType) -> bytes | None:
    from tsqldev.wire.collations import collation_bytes

    return None if type.collation is None else collation_bytes(type.collation)


# -- what a statement would answer

_DESCRIBED: tuple[tuple[str, SqlType], ...] = (
    ("is_hidden", BIT),
    ("column_ordinal", INT),
    ("name", _NAME),
    ("is_nullable", BIT),
    ("system_type_id", INT),
    ("system_type_name", nvarchar(256)),
    ("max_length", SMALLINT),
    ("precision", TINYINT),
    ("scale", TINYINT),
    ("collation_name", _NAME),
    ("user_type_id", INT),
    ("user_type_database", _NAME),
    ("user_type_schema", _NAME),
    ("user_type_name", _NAME),
    ("assembly_qualified_type_name", nvarchar(4000)),
    ("xml_collection_id", INT),
    ("xml_collection_database", _NAME),
    ("xml_collection_schema", _NAME),
    ("xml_collection_name", _NAME),
    ("is_xml_document", BIT),
    ("is_case_sensitive", BIT),
    ("is_fixed_length_clr_type", BIT),
    ("source_server", _NAME),
    ("source_database", _NAME),
    ("source_schema", _NAME),
    ("source_table", _NAME),
    ("source_column", _NAME),
    ("is_identity_column", BIT),
    ("is_part_of_unique_key", BIT),
    ("is_updateable", BIT),
    ("is_computed_column", BIT),
    ("is_sparse_column_set", BIT),
    ("ordinal_in_order_by_list", SMALLINT),
    ("order_by_is_descending", SMALLINT),
    ("order_by_list_length", SMALLINT),
    ("tds_type_id", INT),
    ("tds_length", INT),
    ("tds_collation_id", INT),
    ("tds_collation_sort_id", TINYINT),
)

_TYPE_IDS = {
    "image": 34, "text": 35, "uniqueidentifier": 36, "date": 40, "time": 41, "datetime2": 42, "datetimeoffset": 43,
    "tinyint": 48, "smallint": 52, "int": 56, "smalldatetime": 58, "real": 59, "money": 60, "datetime": 61,
    "float": 62, "ntext": 99, "bit": 104, "decimal": 106, "numeric": 108, "smallmoney": 122, "bigint": 127,
    "varbinary": 165, "varchar": 167, "binary": 173, "char": 175, "rowversion": 189, "nvarchar": 231, "sysname": 231,
    "nchar": 239, "xml": 241,
}  # fmt: skip
# The type ids of TDS where they are not those of the catalog.
_TDS_TYPES = {
    **_TYPE_IDS,
    "uniqueidentifier": 36, "tinyint": 38, "smallint": 38, "int": 38, "bigint": 38, "bit": 104, "real": 109,
    "float": 109, "money": 110, "smallmoney": 110, "datetime": 111, "smalldatetime": 111, "varbinary": 165,
}  # fmt: skip
_FIXED_LENGTHS = {
    "bit": (1, 1, 0), "tinyint": (1, 3, 0), "smallint": (2, 5, 0), "int": (4, 10, 0), "bigint": (8, 19, 0),
    "real": (4, 24, 0), "float": (8, 53, 0), "money": (8, 19, 4), "smallmoney": (4, 10, 4), "date": (3, 10, 0),
    "datetime": (8, 23, 3), "smalldatetime": (4, 16, 0), "uniqueidentifier": (16, 0, 0), "rowversion": (8, 0, 0),
}  # fmt: skip


def _measures(type: SqlType) -> tuple[int, int, int]:
    """(max_length in bytes, precision, scale) as sys.columns shows them."""
    if type.name in _FIXED_LENGTHS:
        return _FIXED_LENGTHS[type.name]
    if type.name in ("decimal", "numeric"):
        precision = type.precision or 18
        return 5 + 4 * ((precision > 9) + (precision > 19) + (precision > 28)), precision, type.scale or 0
    if type.name in ("time", "datetime2", "datetimeoffset"):
        scale = 7 if type.scale is None else type.scale
        base, digits = {"time": (3, 8), "datetime2": (6, 19), "datetimeoffset": (8, 26)}[type.name]
        return base + (scale > 2) + (scale > 4), digits + (scale + 1 if scale else 0), scale
    if type.length in (MAX, None):
        return -1, 0, 0
    return (type.length or 0) * (2 if type.name in UNICODE else 1), 0, 0


# An alias type is described by what it stands for.
_SHOWN = {"sysname": "nvarchar(128)", "rowversion": "timestamp"}


def _described(number: int, column: Column) -> tuple[object, ...]:
    type = column.type
    length, precision, scale = _measures(type)
    return (
        0, number, column.name or None, int(type.nullable), _TYPE_IDS.get(type.name, 231), _SHOWN.get(type.name, str(type)), length,
        precision, scale, type.collation, None, None, None, None, None, None, None, None, None, 0,
        int(type.name in CHARACTER and "_CI" not in (type.collation or "_CI")), 0, None, None, None, None, None,
        int(column.identity), None, int(not (column.identity or column.computed)), int(column.computed), 0, None, None,
        None, _TYPE_IDS.get(type.name, 231), length, None, None,
    )  # fmt: skip


def _columns_of(interp: Interpreter, text: str, parameters: str = "") -> Sequence[Column]:
    """The columns of the first result set of a batch; none for one that answers none. Raises what compiling raises."""
    from tsqldev.session.prepared import declarations
    from tsqldev.session.variables import declare_all

    session = interp.session
    frame = Frame(Scope.DYNAMIC, session.principal.database, default_schema=session.principal.default_schema)
    for declaration in declarations(parameters):
        frame.variables[declaration.name.lower()] = declaration.type
        frame.values[declaration.name.lower()] = None
    interp.frames.append(frame)
    try:
        nodes = session.engine.split(text)
        declare_all(interp, nodes)
        for node in nodes:
            if isinstance(node, Simple) and node.first in ("SELECT", "WITH", "INSERT", "UPDATE", "DELETE", "MERGE"):
                compiled = interp.compile(node.text)
                if compiled.columns and not compiled.assigns and compiled.into is None:
                    return compiled.columns
            elif not isinstance(node, Simple) or node.first in ("EXEC", ""):
                raise SqlError(
                    11512,
                    "The metadata could not be determined because the statement "
                    f"'{getattr(node, 'text', 'IF')[:100]}' is not emulated for describing.",
                )
    finally:
        scratch.leave(interp, frame)
        interp.frames.pop()
    return ()


def sp_describe_first_result_set(interp: Interpreter, arguments: list[Argument]) -> int:
    text = str(arguments[0].value or "")
    parameters = str(arguments[1].value) if len(arguments) > 1 and arguments[1].value else ""
    columns = _columns_of(interp, text, parameters)
    _answer(interp, _DESCRIBED, [_described(number, column) for number, column in enumerate(columns, 1)])
    return 0


_SUGGESTED: tuple[tuple[str, SqlType], ...] = (
    ("parameter_ordinal", INT),
    ("name", _NAME),
    ("suggested_system_type_id", INT),
    ("suggested_system_type_name", nvarchar(256)),
    ("suggested_max_length", SMALLINT),
    ("suggested_precision", TINYINT),
    ("suggested_scale", TINYINT),
    ("suggested_user_type_id", INT),
    ("suggested_user_type_database", _NAME),
    ("suggested_user_type_schema", _NAME),
    ("suggested_user_type_name", _NAME),
    ("suggested_assembly_qualified_type_name", nvarchar(4000)),
    ("suggested_xml_collection_id", INT),
    ("suggested_xml_collection_database", _NAME),
    ("suggested_xml_collection_schema", _NAME),
    ("suggested_xml_collection_name", _NAME),
    ("suggested_is_xml_document", BIT),
    ("suggested_is_case_sensitive", BIT),
    ("suggested_is_fixed_length_clr_type", BIT),
    ("suggested_is_input", BIT),
    ("suggested_is_output", BIT),
    ("formal_parameter_name", _NAME),
    ("suggested_tds_type_id", INT),
    ("suggested_tds_length", INT),
)


def sp_describe_undeclared_parameters(interp: Interpreter, arguments: list[Argument]) -> int:
    from tsqldev.session.prepared import declarations
    from tsqldev.session.undeclared import undeclared

    text = str(arguments[0].value or "")
    given = declarations(str(arguments[1].value)) if len(arguments) > 1 and arguments[1].value else ()
    rows = []
    for number, (name, type) in enumerate(undeclared(interp, text, [each.name for each in given]), 1):
        length, precision, scale = _measures(type)
        sensitive = int(type.name in CHARACTER and "_CI" not in (type.collation or "_CI"))
        row = (
            number, name, _TYPE_IDS.get(type.name, 231), _SHOWN.get(type.name, str(type)), length, precision, scale,
            None, None, None, None, None, None, None, None, None, 0, sensitive, 0, 1, 0, None,
            _TDS_TYPES.get(type.name, 231), 65535 if length == -1 else length,
        )  # fmt: skip
        rows.append(row)
    _answer(interp, _SUGGESTED, rows)
    return 0


def describe_rows(interp: Interpreter, text: str) -> list[dict[str, object]]:
    """The rows of sys.dm_exec_describe_first_result_set: one a column, or one that tells the error."""
    try:
        columns = _columns_of(interp, text)
    except SqlError as error:
        return [
            {
                "error_number": error.number,
                "error_severity": error.severity,
                "error_state": error.state,
                "error_message": error.message,
                "error_type": 1,
                "error_type_desc": "MISC",
            }
        ]
    names = [name for name, _ in _DESCRIBED]
    return [dict(zip(names, _described(number, column), strict=True)) for number, column in enumerate(columns, 1)]


Procedure = Callable[["Interpreter", list["Argument"]], int]

PROCEDURES: dict[str, Procedure] = {
    "sp_datatype_info": sp_datatype_info,
    "sp_datatype_info_100": sp_datatype_info,
    "sp_datatype_info_90": sp_datatype_info,
    "sp_tablecollations_100": sp_tablecollations,
    "sp_tablecollations_90": sp_tablecollations,
    "sp_describe_first_result_set": sp_describe_first_result_set,
    "sp_describe_undeclared_parameters": sp_describe_undeclared_parameters,
}
