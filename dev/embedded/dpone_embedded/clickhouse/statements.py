"""What the access proxy understands: access statements, and the head of each statement that an SQL user may send.

A closed world: a clause, a privilege or a statement that is not named here is refused, never guessed.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from dpone_embedded.clickhouse.tokens import Cursor, SqlTextError

ACCESS_WORDS = ("CREATE", "ALTER", "DROP")
PRIVILEGES = ("SELECT", "INSERT", "CREATE TABLE", "DROP TABLE")
EXCHANGE_NEEDS = frozenset(PRIVILEGES)

Scope = tuple[str, str]
Grant = tuple[str, str, str]


class Refused(Exception):
    """An answer in ClickHouse's own terms: number, name and text of the exception, and its HTTP status."""

    def __init__(self, code: int, name: str, text: str, status: int = 500) -> None:
        super().__init__(text)
        self.code, self.name, self.text, self.status = code, name, text, status


def not_known(what: str) -> Refused:
    return Refused(48, "NOT_IMPLEMENTED", f"Access control is emulated here and does not know {what}", 501)


def denied(user: str, what: str) -> Refused:
    return Refused(
        497,
        "ACCESS_DENIED",
        f"{user}: Not enough privileges. To execute this query, it's necessary to have the grant {what}",
        403,
    )


@dataclass(frozen=True)
class Credentials:
    """How a user authenticates: SHA-256 over password and salt, as ClickHouse's sha256_hash stores it."""

    digest: str
    salt: str = ""


@dataclass(frozen=True)
class UserClauses:
    """The clauses of CREATE USER and ALTER USER that were given; None means the clause was absent."""

    credentials: Credentials | None = None
    valid_until: float | None = None
    hosts: tuple[str, ...] | None = None


@dataclass(frozen=True)
class AccessStatement:
    """One access statement: ``verb`` is CREATE, ALTER, DROP, GRANT, REVOKE or SHOW GRANTS."""

    verb: str
    user: str
    tolerant: bool = False
    clauses: UserClauses = field(default_factory=UserClauses)
    grants: tuple[Grant, ...] = ()
    rest: str = ""


def parse_access(text: str, default_database: str) -> AccessStatement | None:
    """The access statement in ``text``, or None when it is another kind of statement."""
    cursor = Cursor(text)
    first = cursor.take()
    if first is None:
        return None
    if first.is_word(*ACCESS_WORDS):
        second = cursor.peek()
        if second is not None and second.is_word("ROLE", "ROW", "QUOTA", "POLICY", "SETTINGS", "PROFILE"):
            raise not_known(f"{first.value.upper()} {second.value.upper()}")
        if not cursor.accept("USER"):
            return None
        return _user(first.value.upper(), cursor)
    if first.is_word("GRANT", "REVOKE"):
        return _grant(first.value.upper(), cursor, default_database)
    if first.is_word("SHOW"):
        second = cursor.take()
        if second is not None and second.is_word("USERS", "ACCESS", "ROLES"):
            raise not_known(f"SHOW {second.value.upper()}")
        if second is not None and second.is_word("GRANTS") and cursor.accept("FOR"):
            name = cursor.name()
            return AccessStatement("SHOW GRANTS", name, rest=text[cursor.end :])
        return None
    if first.is_word("MOVE"):
        raise not_known("MOVE")
    if first.is_word("SET"):
        second = cursor.take()
        if second is not None and second.is_word("ROLE", "DEFAULT"):
            raise not_known(f"SET {second.value.upper()}")
    return None


def _user(verb: str, cursor: Cursor) -> AccessStatement:
    tolerant = cursor.accept("IF", "NOT", "EXISTS") if verb == "CREATE" else cursor.accept("IF", "EXISTS")
    name = cursor.name()
    clauses = UserClauses()
    while verb != "DROP" and not cursor.at_end():
        clauses = _clause(cursor, clauses)
    if not cursor.at_end():
        token = cursor.peek()
        raise not_known(f"{token.value if token else ''} in {verb} USER")
    if verb == "CREATE" and clauses.credentials is None:
        raise not_known("CREATE USER without IDENTIFIED WITH sha256_hash or sha256_password")
    return AccessStatement(verb, name, tolerant, clauses)


def _clause(cursor: Cursor, so_far: UserClauses) -> UserClauses:
    if cursor.accept("IDENTIFIED"):
        kind = cursor.name().lower() if cursor.accept("WITH") else "sha256_password"
        cursor.expect("BY")
        value = cursor.string()
        if kind == "sha256_hash":
            salt = cursor.string() if cursor.accept("SALT") else ""
            return UserClauses(Credentials(value.lower(), salt), so_far.valid_until, so_far.hosts)
        if kind == "sha256_password":
            import hashlib

            return UserClauses(
                Credentials(hashlib.sha256(value.encode()).hexdigest()), so_far.valid_until, so_far.hosts
            )
        raise not_known(f"IDENTIFIED WITH {kind}")
    if cursor.accept("VALID", "UNTIL"):
        return UserClauses(so_far.credentials, _moment(cursor.string()), so_far.hosts)
    if cursor.accept("HOST"):
        return UserClauses(so_far.credentials, so_far.valid_until, _hosts(cursor))
    token = cursor.peek()
    raise not_known(f"the clause {token.value if token else ''}")


def _moment(text: str) -> float:
    if text.lower() == "infinity":
        return float("inf")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as err:
        raise Refused(38, "CANNOT_PARSE_DATE", f"VALID UNTIL {text!r} is no date and time") from err
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _hosts(cursor: Cursor) -> tuple[str, ...]:
    if cursor.accept("NONE"):
        return ()
    if cursor.accept("ANY"):
        return ("any",)
    found: list[str] = []
    while True:
        if cursor.accept("LOCAL"):
            found.append("local")
        elif cursor.accept("IP"):
            found.append(str(ipaddress.ip_network(cursor.string(), strict=False)))
        else:
            token = cursor.peek()
            raise not_known(f"HOST {token.value if token else ''}")
        if not cursor.mark(","):
            return tuple(found)


def _grant(verb: str, cursor: Cursor, default_database: str) -> AccessStatement:
    privileges: list[str] = []
    if verb == "REVOKE" and cursor.accept("ALL"):
        cursor.accept("PRIVILEGES")
        privileges = list(PRIVILEGES)
    while not privileges or cursor.mark(","):
        words = [cursor.name().upper()]
        while (token := cursor.peek()) is not None and token.kind == "word" and not token.is_word("ON", "TO", "FROM"):
            words.append(cursor.name().upper())
        privilege = " ".join(words)
        if privilege not in PRIVILEGES:
            raise not_known(f"{verb} {privilege}")
        privileges.append(privilege)
    cursor.expect("ON")
    scope = _scope(cursor, default_database)
    cursor.expect("TO" if verb == "GRANT" else "FROM")
    user = cursor.name()
    if not cursor.at_end():
        token = cursor.peek()
        raise not_known(f"{token.value if token else ''} in {verb}")
    return AccessStatement(verb, user, grants=tuple((privilege, *scope) for privilege in privileges))


def _scope(cursor: Cursor, default_database: str) -> Scope:
    first = "*" if cursor.mark("*") else cursor.name()
    if not cursor.mark("."):
        return (default_database, first)
    return (first, "*" if cursor.mark("*") else cursor.name())


@dataclass(frozen=True)
class Needs:
    """What a data statement of an SQL user needs: (privilege, database, table); ``reads`` is any other statement."""

    grants: tuple[Grant, ...]
    reads: bool = False
    streams: bool = False


def needs(text: str, default_database: str) -> Needs:
    """What the statement at the head of ``text`` needs. Only the head of an INSERT is read; its data is not touched."""
    cursor = Cursor(text)
    if cursor.accept("INSERT"):
        cursor.expect("INTO")
        cursor.accept("TABLE")
        target = cursor.peek()
        if target is not None and target.is_word("FUNCTION"):
            raise not_known("INSERT INTO FUNCTION")
        database, table = cursor.table(default_database)
        if cursor.mark("("):
            while not cursor.mark(")"):
                if cursor.take() is None:
                    raise SqlTextError("the column list does not end")
        if cursor.accept("SETTINGS"):
            while (token := cursor.peek()) is not None and not token.is_word(
                "FORMAT", "VALUES", "SELECT", "WITH", "FROM"
            ):
                cursor.take()
        if not (cursor.accept("FORMAT") or cursor.accept("VALUES")):
            raise not_known("INSERT other than FORMAT or VALUES for an SQL user")
        return Needs((("INSERT", database, table),), streams=True)
    if cursor.accept("EXCHANGE", "TABLES"):
        first = cursor.table(default_database)
        cursor.expect("AND")
        second = cursor.table(default_database)
        _end(cursor, "EXCHANGE TABLES")
        return Needs(tuple((privilege, *name) for name in (first, second) for privilege in PRIVILEGES))
    if cursor.accept("RENAME", "TABLE"):
        source = cursor.table(default_database)
        cursor.expect("TO")
        target_name = cursor.table(default_database)
        _end(cursor, "RENAME TABLE")
        return Needs(
            (("SELECT", *source), ("DROP TABLE", *source), ("CREATE TABLE", *target_name), ("INSERT", *target_name))
        )
    if cursor.accept("DROP", "TABLE"):
        cursor.accept("IF", "EXISTS")
        table_name = cursor.table(default_database)
        cursor.accept("SYNC")
        _end(cursor, "DROP TABLE")
        return Needs((("DROP TABLE", *table_name),))
    return Needs((), reads=True)


def _end(cursor: Cursor, what: str) -> None:
    if not cursor.at_end():
        token = cursor.peek()
        raise not_known(f"{token.value if token else ''} after {what}")


def covers(grant: Grant, need: Grant) -> bool:
    """Whether one granted right covers one needed right."""
    return grant[0] == need[0] and grant[1] in ("*", need[1]) and grant[2] in ("*", need[2])
