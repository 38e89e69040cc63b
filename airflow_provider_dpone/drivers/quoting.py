"""The one place where identifiers become SQL text. Values are never quoted: they are parameters."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable

from airflow_provider_dpone.contracts.errors import ConfigurationError


def quote_mssql(*parts: str) -> str:
    """``quote_mssql("db", "schema", "table")`` -> ``[db].[schema].[table]``. At most 128 UTF-16 units a part."""
    return ".".join("[" + _checked(part, 128, utf16_units).replace("]", "]]") + "]" for part in parts)


def quote_in_script(part: str) -> str:
    """The same for a script that GO separates: a line break in a name could end its batch and begin another one."""
    if len(part.splitlines()) > 1 or part != part.rstrip("\r\n"):
        raise ConfigurationError("identifier", happened="an identifier in a script contains a line break.")
    return quote_mssql(part)


def as_compared(name: str) -> str:
    """A name as a SQL Server of the usual collation compares it: without case, width and trailing blanks.

    Equal keys may be one name to a server; a server that compares exactly tells some of them apart.
    """
    return unicodedata.normalize("NFKC", name).casefold().rstrip()


def require_one_spelling(names: Iterable[str]) -> None:
    """Refuse two spellings of what may be one name to the server: one would be given what the other is denied."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(as_compared(_checked(name, 128, utf16_units)), name)
        if other != name:
            raise ConfigurationError(
                "identifier",
                happened=f"{other!r} and {name!r} are two spellings of a name that a server may not tell apart.",
                check="write one account the same way everywhere.",
            )


def quote_clickhouse(*parts: str) -> str:
    """Backquoted; a backslash and a backquote are escaped with a backslash."""
    return ".".join("`" + _checked(part, 206).replace("\\", "\\\\").replace("`", "\\`") + "`" for part in parts)


def quote_postgres(*parts: str) -> str:
    """Double-quoted. At most 63 bytes a part: PostgreSQL would cut a longer name without an error."""
    return ".".join('"' + _checked(part, 63, _bytes).replace('"', '""') + '"' for part in parts)


def _bytes(text: str) -> int:
    return len(text.encode())


def utf16_units(text: str) -> int:
    """The length of a text as SQL Server counts it: a character outside of the basic plane counts twice."""
    return len(text.encode("utf-16-le")) // 2


def _checked(part: str, limit: int, length: Callable[[str], int] = len) -> str:
    if type(part) is not str:
        raise ConfigurationError("identifier", happened="an identifier is not a text.")
    try:
        part.encode()
    except UnicodeEncodeError as err:
        raise ConfigurationError("identifier", happened="an identifier contains a lone surrogate.") from err
    if not part or length(part) > limit or "\x00" in part:
        raise ConfigurationError(
            "identifier", happened=f"an identifier is empty, longer than the server's {limit} or contains NUL."
        )
    return part
