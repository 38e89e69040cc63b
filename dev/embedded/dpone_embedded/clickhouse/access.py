"""The SQL users of the embedded server: who they are, what they were granted, and which pool users of the engine
they use.

The engine's users cannot be created at run time, so each SQL user is bound at its first statement to a pool user
declared in users.xml whose own privileges are as narrow as the statement's kind. A pool user that can
write serves one SQL user and is never used again; the ones that can do nothing share one. The file is written before a change is acknowledged.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import os
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from dpone_embedded.clickhouse.statements import (
    AccessStatement,
    Credentials,
    Grant,
    Needs,
    Refused,
    covers,
    denied,
    not_known,
)

POOL_PREFIX = "dpone_pool_"
SHARED = "none"
"""The class whose one pool user has no rights at all. Its statements carry the SQL user's name as their log_comment."""
CLASS_GRANTS = {
    "none": (),
    "insert": ("GRANT INSERT ON *.*",),
    "publish": ("GRANT SELECT, INSERT, CREATE TABLE, DROP TABLE ON *.*",),
}
"""What the engine itself lets each class of pool user do; the proxy narrows it to the granted names."""


@dataclass
class SqlUser:
    """One SQL user. ``hosts`` empty means that nobody may log in; ``valid_until`` is a time stamp in seconds."""

    name: str
    id: str
    digest: str
    salt: str
    valid_until: float
    hosts: list[str]
    grants: list[list[str]] = field(default_factory=list)
    pool: dict[str, str] = field(default_factory=dict)

    def may(self, need: Grant) -> bool:
        return any(covers((grant[0], grant[1], grant[2]), need) for grant in self.grants)


class AccessBook:
    """The access storage that the engine lacks, in one file of the state directory."""

    def __init__(self, path: Path, pool: dict[str, list[str]]) -> None:
        self._path = path
        self._pool = pool
        self.users: dict[str, SqlUser] = {}
        self.observed: dict[str, str] = {}
        if path.exists():
            document = json.loads(path.read_text())
            self.users = {entry["name"]: SqlUser(**entry) for entry in document["users"]}
            self.observed = document["observed"]

    def _save(self) -> None:
        document = {"users": [vars(user) for user in self.users.values()], "observed": self.observed}
        draft = self._path.with_suffix(".draft")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(document, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, self._path)

    def apply(self, statement: AccessStatement, standing: frozenset[str]) -> None:
        """Carry out one access statement; the caller has checked that its sender manages access."""
        name = statement.user
        if name in standing or name.startswith(POOL_PREFIX):
            raise Refused(
                495, "ACCESS_STORAGE_READONLY", f"Cannot change user `{name}` because its storage users_xml is readonly"
            )
        user = self.users.get(name)
        if statement.verb == "CREATE":
            self._create(statement, user)
        elif user is None:
            if not statement.tolerant:
                raise Refused(192, "UNKNOWN_USER", f"There is no user `{name}` in user directories", 404)
        elif statement.verb == "ALTER":
            _change(user, statement)
        elif statement.verb == "DROP":
            del self.users[name]
        elif statement.verb == "GRANT":
            for grant in statement.grants:
                if grant[1] in ("*", "system"):
                    raise not_known(f"GRANT {grant[0]} ON {grant[1]}.{grant[2]} to an SQL user")
                if list(grant) not in user.grants:
                    user.grants.append(list(grant))
        elif statement.verb == "REVOKE":
            user.grants = [held for held in user.grants if not _revoked(held, statement.grants)]
        self._save()

    def _create(self, statement: AccessStatement, user: SqlUser | None) -> None:
        if user is not None:
            if statement.tolerant:
                return
            raise Refused(
                493,
                "ACCESS_ENTITY_ALREADY_EXISTS",
                f"user `{user.name}`: cannot insert because user `{user.name}` already exists in local_directory",
            )
        clauses = statement.clauses
        credentials = clauses.credentials or Credentials("")
        self.users[statement.user] = SqlUser(
            name=statement.user,
            id=str(uuid.uuid4()),
            digest=credentials.digest,
            salt=credentials.salt,
            valid_until=float("inf") if clauses.valid_until is None else clauses.valid_until,
            hosts=["any"] if clauses.hosts is None else list(clauses.hosts),
        )

    def authenticate(self, name: str, password: str, address: str) -> SqlUser | None:
        """The user when it may log in now from ``address`` with ``password``, else None. Says nothing about why."""
        user = self.users.get(name)
        if user is None:
            return None
        offered = hashlib.sha256((password + user.salt).encode()).hexdigest()
        fits = hmac.compare_digest(offered, user.digest)
        if not fits or time.time() >= user.valid_until or not _host_allowed(user.hosts, address):
            return None
        return user

    def check(self, user: SqlUser, needed: Needs) -> None:
        for need in needed.grants:
            if not user.may(need):
                raise denied(user.name, f"{need[0]} ON {need[1]}.{need[2]}")

    def bind(self, user: SqlUser, needed: Needs) -> str:
        """The pool user for a statement of this kind; a writing one is bound for good, written down before its first use."""
        if needed.reads:
            return self._pool[SHARED][0]
        kind = "insert" if needed.streams else "publish"
        if kind not in user.pool:
            free = next((name for name in self._pool[kind] if name not in self.observed), None)
            if free is None:
                raise Refused(
                    202,
                    "TOO_MANY_SIMULTANEOUS_QUERIES",
                    f"No unused pool user of class {kind} is left; restart the embedded server to declare more",
                )
            self.observed[free] = user.name
            user.pool[kind] = free
            self._save()
        return user.pool[kind]

    def grants_of(self, name: str) -> list[str]:
        user = self.users.get(name)
        if user is None:
            raise Refused(192, "UNKNOWN_USER", f"There is no user `{name}` in user directories", 404)
        scopes: dict[tuple[str, str], list[str]] = {}
        for privilege, database, table in user.grants:
            scopes.setdefault((database, table), []).append(privilege)
        return [f"GRANT {', '.join(names)} ON {scope[0]}.{scope[1]} TO {name}" for scope, names in scopes.items()]


def _change(user: SqlUser, statement: AccessStatement) -> None:
    clauses = statement.clauses
    if clauses.credentials is not None:
        user.digest, user.salt = clauses.credentials.digest, clauses.credentials.salt
    if clauses.valid_until is not None:
        user.valid_until = clauses.valid_until
    if clauses.hosts is not None:
        user.hosts = list(clauses.hosts)


def _revoked(held: list[str], revoked: tuple[Grant, ...]) -> bool:
    return any(covers(grant, (held[0], held[1], held[2])) for grant in revoked)


def _host_allowed(hosts: list[str], address: str) -> bool:
    client = ipaddress.ip_address(address)
    for host in hosts:
        if host == "any" or (host == "local" and client.is_loopback):
            return True
        if host not in ("any", "local") and client in ipaddress.ip_network(host):
            return True
    return False
