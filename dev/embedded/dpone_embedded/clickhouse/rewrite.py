"""Names seen from outside: system tables show the SQL user's name where the engine knows a pool user.

References to system.processes, system.query_log and system.users in a FROM or JOIN are replaced by sub-selects;
KILL QUERY sees the mapped name in its condition; serverUUID(), which this engine leaves zero, is the identity of
the state directory. A reference that cannot be replaced by its position stays as it is and shows pool names.
"""

from __future__ import annotations

from collections.abc import Iterable

from dpone_embedded.clickhouse.access import POOL_PREFIX, SHARED, AccessBook, SqlUser
from dpone_embedded.clickhouse.statements import not_known
from dpone_embedded.clickhouse.tokens import Token, literal, tokens

MAPPED = ("processes", "query_log")
HOSTS = "host_ip, host_names, host_names_regexp, host_names_like"
NO_HOSTS = ", ".join(f"[]::Array(String) AS {name}" for name in HOSTS.split(", ")[1:])
_NO_ALIAS = frozenset(
    word
    for line in (
        "WHERE PREWHERE GROUP ORDER LIMIT HAVING SETTINGS FORMAT UNION INTERSECT EXCEPT JOIN INNER LEFT RIGHT FULL",
        "CROSS ANY ALL ASOF GLOBAL ARRAY FINAL SAMPLE ON USING WINDOW QUALIFY OFFSET INTO PASTE SEMI ANTI",
    )
    for word in line.split()
)


def rewrite(text: str, book: AccessBook, server_id: str, caller: SqlUser | None) -> str:
    """``text`` with the engine's names replaced; unchanged when it mentions none of them."""
    found = list(tokens(text))
    pieces: list[str] = []
    position = 0
    kills = len(found) > 1 and found[0].is_word("KILL") and found[1].is_word("QUERY")
    index = 0
    while index < len(found):
        token = found[index]
        replacement, used = None, 1
        if kills and token.is_word("USER", "INITIAL_USER") and found[index - 1].value != "{":
            replacement = _mapped(token.value, book)
        elif _call(found, index, "serverUUID"):
            replacement, used = f"toUUID({literal(server_id)})", 3
        elif caller is not None and (_call(found, index, "currentUser") or _call(found, index, "user")):
            replacement, used = literal(caller.name), 3
        elif table := _system_table(found, index):
            if table == "grants":
                raise not_known("system.grants; ask SHOW GRANTS FOR a user")
            if table in (*MAPPED, "users"):
                body = _users(book) if table == "users" else _processes(table, book)
                alias = "" if _has_alias(found, index + 3) else f" AS {table}"
                replacement, used = f"({body}){alias}", 3
        if replacement is not None:
            pieces += [text[position : token.start], replacement]
            position = found[index + used - 1].end
        index += used
    return "".join(pieces) + text[position:] if pieces else text


def _call(found: list[Token], index: int, function: str) -> bool:
    if index + 2 >= len(found):
        return False
    name, opened, closed = found[index : index + 3]
    return name.kind == "word" and name.value == function and opened.value == "(" and closed.value == ")"


def _system_table(found: list[Token], index: int) -> str | None:
    if index == 0 or index + 2 >= len(found):
        return None
    before, database, dot, table = found[index - 1 : index + 3]
    in_place = before.is_word("FROM", "JOIN") or (before.kind == "mark" and before.value == ",")
    if in_place and database.is_name and database.value == "system" and dot.value == "." and table.is_name:
        return table.value
    return None


def _has_alias(found: list[Token], index: int) -> bool:
    if index >= len(found) or not found[index].is_name:
        return False
    return found[index].kind == "identifier" or found[index].value.upper() not in _NO_ALIAS


def _array(values: Iterable[str]) -> str:
    return "[" + ", ".join(literal(value) for value in values) + "]"


def _mapped(column: str, book: AccessBook) -> str:
    """The SQL user's name for a pool user: writing ones by the book, the shared one by what the statement carries."""
    known = f"transform({column}, {_array(book.observed)}, {_array(book.observed.values())}, {column})"
    shared = f"startsWith({column}, {literal(POOL_PREFIX + SHARED)})"
    return f"if({shared}, Settings['log_comment'], {known if book.observed else column})"


def _processes(table: str, book: AccessBook) -> str:
    columns = ", ".join(f"{_mapped(column, book)} AS {column}" for column in ("user", "initial_user"))
    return f"SELECT * REPLACE ({columns}) FROM system.{table}"


def _users(book: AccessBook) -> str:
    standing = (
        "SELECT name, id, storage, arrayMap(x -> toString(x), auth_type) AS auth_type, "
        "host_ip, host_names, host_names_regexp, host_names_like FROM system.users WHERE NOT startsWith(name, "
        + literal(POOL_PREFIX)
        + ")"
    )
    if not book.users:
        return standing
    hosts = {
        user.name: _array("::/0" if host == "any" else host for host in user.hosts) for user in book.users.values()
    }
    rows = ", ".join(f"({literal(user.name)}, {literal(user.id)}, {hosts[user.name]})" for user in book.users.values())
    ours = (
        "SELECT u.1 AS name, toUUID(u.2) AS id, 'emulated_access_proxy' AS storage, ['sha256_password'] AS auth_type, "
        f"u.3::Array(String) AS host_ip, {NO_HOSTS} FROM (SELECT arrayJoin([{rows}]) AS u)"
    )
    return f"{standing} UNION ALL {ours}"
