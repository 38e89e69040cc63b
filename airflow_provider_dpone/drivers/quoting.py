"""The one place where identifiers become SQL text. Values are never quoted: they are parameters."""

from __future__ import annotations

from airflow_provider_dpone.contracts.errors import ConfigurationError


def quote_mssql(*parts: str) -> str:
    """``quote_mssql("db", "schema", "table")`` -> ``[db].[schema].[table]``. At most 128 characters a part."""
    return ".".join("[" + _checked(part, 128).replace("]", "]]") + "]" for part in parts)


def quote_clickhouse(*parts: str) -> str:
    """Backquoted; a backslash and a backquote are escaped with a backslash."""
    return ".".join("`" + _checked(part, 206).replace("\\", "\\\\").replace("`", "\\`") + "`" for part in parts)


def quote_postgres(*parts: str) -> str:
    """Double-quoted. At most 63 bytes a part: PostgreSQL would cut a longer name without an error."""
    for part in parts:
        if len(part.encode()) > 63:
            raise ConfigurationError("identifier", happened="a PostgreSQL identifier is longer than 63 bytes.")
    return ".".join('"' + _checked(part, 63).replace('"', '""') + '"' for part in parts)


def _checked(part: str, limit: int) -> str:
    if not part or len(part) > limit or "\x00" in part:
        raise ConfigurationError(
            "identifier", happened=f"an identifier is empty, longer than {limit} characters or contains NUL."
        )
    try:
        part.encode()
    except UnicodeEncodeError as err:
        raise ConfigurationError("identifier", happened="an identifier contains a lone surrogate.") from err
    return part
