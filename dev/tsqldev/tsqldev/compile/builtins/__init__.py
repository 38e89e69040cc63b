"""The functions that T-SQL texts may call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tsqldev.compile import tree as t
from tsqldev.compile.builtins import aggregates, choice, dates, documents, numbers, session, strings
from tsqldev.compile.builtins.registry import BUILTINS, arity
from tsqldev.compile.builtins.session import SESSION_VALUES
from tsqldev.compile.convert import Value, convert
from tsqldev.errors import SqlError, unsupported

if TYPE_CHECKING:
    from tsqldev.compile.expressions import Expressions

__all__ = ["SESSION_VALUES", "aggregates", "call", "choice", "dates", "documents", "numbers", "session", "strings"]

# Functions without parentheses that are another function with none.
_SAME = {
    "SYSTEM_USER": "SUSER_SNAME",
    "CURRENT_USER": "USER_NAME",
    "SESSION_USER": "USER_NAME",
    "USER": "USER_NAME",
}


def call(compiler: Expressions, node: t.Call) -> Value:
    name = node.name.upper()
    line = compiler.line(node)
    if node.schema and node.schema[-1].lower() not in ("sys", ""):
        raise SqlError(
            4121,
            f'Cannot find either column "{node.schema[-1]}" or the user-defined function or aggregate '
            f'"{".".join((*node.schema, node.name))}", or the name is ambiguous.',
            line=line,
        )
    found = BUILTINS.get(name)
    try:
        if found is not None:
            count = len(node.arguments)
            if not found.minimum <= count <= found.maximum:
                raise arity(name, found.minimum, found.maximum)
            if node.star and name not in ("COUNT", "COUNT_BIG"):
                raise SqlError(102, "Incorrect syntax near '*'.", severity=15)
            if node.within is not None and name != "STRING_AGG":
                raise unsupported(f"{name} WITHIN GROUP")
            values = [] if found.lazy else [compiler.value(argument) for argument in node.arguments]
            return found.build(compiler, node, values)
        name = _SAME.get(name, name)
        session = compiler.unit.session_function(name, [] if node.arguments else None)
        if session is not None:
            return session
        metadata = compiler.unit.catalog.functions.get(name)
        if metadata is not None:
            count = len(node.arguments)
            if not metadata.required <= count <= len(metadata.arguments):
                raise arity(name, metadata.required, len(metadata.arguments))
            values = [compiler.value(argument) for argument in node.arguments]
            passed = [convert(v, type).sql for v, type in zip(values, metadata.arguments, strict=False)]
            passed += [f"NULL::{type.postgres}" for type in metadata.arguments[count:]]
            sql = f"sys.{metadata.sql}({', '.join(passed)})"
            if metadata.result_of is None:
                return Value(sql, metadata.result)
            type = metadata.result_of([v.constant for v in values])
            return Value(f"({sql})::{type.postgres}", type)
    except SqlError as error:
        if error.line == 1:
            error.line = line
        raise
    raise SqlError(195, f"'{node.name}' is not a recognized built-in function name.", severity=15, state=10, line=line)
