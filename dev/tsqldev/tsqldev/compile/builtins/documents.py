"""Hashes and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tsqldev.compile import tree as t
from tsqldev.compile.builtins.registry import (
    builtin,
    invalid_argument,
    is_unicode,
    nullable,
    text_argument,
)
from tsqldev.compile.convert import Value
from tsqldev.compile.rules import family
from tsqldev.errors import unsupported
from tsqldev.types import (
    INT,
    MAX,
    nvarchar,
    varbinary,
)

if TYPE_CHECKING:
    from tsqldev.compile.expressions import Expressions

_HASHES = {"MD5": ("md5_bytes", 16), "SHA1": ("sha1", 20), "SHA": ("sha1", 20), "SHA2_256": ("sha256", 32),
           "SHA2_512": ("sha512", 64)}  # fmt: skip


@builtin("HASHBYTES", 2)
def _hashbytes(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    algorithm = (a[0].constant or "").upper()
    if a[0].constant is None:
        raise unsupported("HASHBYTES with an algorithm that is no constant")
    if algorithm in ("MD2", "MD4"):
        raise unsupported(f"HASHBYTES {algorithm}")
    if algorithm not in _HASHES:
        return Value("NULL::bytea", varbinary(8000))
    kind = family(a[1].type)
    if kind == "char":
        data = f"sys.{'nvarchar' if is_unicode(a[1]) else 'varchar'}_bytes({a[1].sql})"
    elif kind == "binary":
        data = a[1].sql
    elif kind == "null":
        return Value("NULL::bytea", varbinary(8000))
    else:
        raise invalid_argument(a[1], 2, "hashbytes")
    function, _ = _HASHES[algorithm]
    prefix = "" if function.startswith("sha2") or function == "sha512" else "sys."
    return Value(f"{prefix}{function}({data})", varbinary(8000).with_nullable(nullable(a[1])))


@builtin("ISJSON", 1, 2)
def _isjson(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    if len(a) > 1:
        raise unsupported("ISJSON with a type")
    return Value(f"sys.isjson({text_argument(a[0], 'isjson').sql})", INT)


@builtin("JSON_VALUE JSON_QUERY", 1, 2)
def _json_value(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    path = text_argument(a[1], n.name, 2).sql if len(a) > 1 else "'$'"
    type = nvarchar(4000) if n.name.upper() == "JSON_VALUE" else nvarchar(MAX)
    return Value(f"sys.{n.name.lower()}({text_argument(a[0], n.name).sql}, {path})", type)


@builtin("JSON_MODIFY", 3)
def _json_modify(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    raise unsupported("JSON_MODIFY")
