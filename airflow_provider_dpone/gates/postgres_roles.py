"""The role of an attempt as PostgreSQL knows it: its statements, its state, and what an answer of the server means.

CREATE ROLE and all that follows it is transactional. An advisory lock on the role's name makes one issuer or closer
wait for the other, because all of them connect to one database. It is a courtesy: anybody in that database can take it,
the attempt included, so nobody waits for it for ever, and what is done without it is refused by the server or right.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_dpone.contracts.errors import ConfigurationError, ControlUnavailable, GateTampered, GuardError
from airflow_provider_dpone.drivers import Secret, load_sql, quote_postgres
from airflow_provider_dpone.drivers.postgres import PostgresDsn, connect, scram_verifier
from airflow_provider_dpone.drivers.trigger_points import reach

if TYPE_CHECKING:
    import psycopg

    Session = psycopg.Connection[tuple[Any, ...]]

SQL = load_sql("airflow_provider_dpone.gates", "sql/postgres_gate.sql")

#: Before 16 whoever may create roles reaches every role but superusers, and a membership without SET cannot be made.
MINIMUM_VERSION = 160000
#: How long an issuer or closer waits for another one of the same role, and how long one may say nothing in between: an
#: issuer that was stopped in the middle of its transaction loses it, and whoever closes goes on. The others undo what a
#: database or a role may have set: a closing that was answered is on disk, and no name means an object of somebody else.
_SETTINGS = (
    ("statement_timeout", "20s"),
    ("lock_timeout", "12s"),
    ("idle_in_transaction_session_timeout", "10s"),
    ("synchronous_commit", "on"),
    ("default_transaction_read_only", "off"),
    # Another one would look, after a wait for a lock, at what was there before it.
    ("default_transaction_isolation", "read committed"),
    ("search_path", "pg_catalog"),
)
#: The session that works, and the one before it that verified the role and may still be leaving.
_CONNECTIONS = 2

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What a server says of itself. ``service_id`` stands for its system identifier, which a copy of it shares."""

    service_id: str
    version: int
    version_text: str
    account: str
    standby: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A role of a journaled name. ``ours``: the asking account made it, or was given the right to alter it."""

    oid: int
    may_log_in: bool
    expired: bool
    powerful: bool
    memberships: tuple[str, ...]
    ours: bool

    @property
    def closed(self) -> bool:
        return not open_by(self)


def open_by(role: Role) -> list[str]:
    """Why a role is not a closed one."""
    return [
        text
        for text, bad in (
            ("it may log in", role.may_log_in),
            ("it has not expired", not role.expired),
            ("it may create roles or databases, or more", role.powerful),
            (f"it is a member of {', '.join(role.memberships)}", bool(role.memberships)),
        )
        if bad
    ]


def server_of(session: Session) -> Server:
    row = session.execute(SQL.text("service").encode()).fetchone()
    assert row is not None
    identifier, version, text, account, standby = row
    return Server(
        service_id=service_id_of(str(identifier)),
        version=int(version),
        version_text=str(text),
        account=str(account),
        standby=bool(standby),
    )


def service_id_of(system_identifier: str) -> str:
    """The service id of a server: its system identifier, given at initdb and kept over restarts and promotions."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"dpone:postgres-system-identifier:{system_identifier}"))


def role_of(session: Session, name: str) -> Role | None:
    row = session.execute(SQL.text("role").encode(), {"name": name}).fetchone()
    if row is None:
        return None
    oid, may_log_in, expired, powerful, memberships, ours = row
    return Role(
        oid=int(oid),
        may_log_in=bool(may_log_in),
        expired=bool(expired),
        powerful=bool(powerful),
        memberships=tuple(memberships),
        ours=bool(ours),
    )


def create(
    session: Session, name: str, secret: Secret, group: str, lifetime: timedelta, *, read_only: bool = True
) -> None:
    """Create the role with its one membership, in the caller's transaction."""
    until = session.execute(SQL.text("valid_until").encode(), {"lifetime": lifetime}).fetchone()
    assert until is not None
    text = SQL.text(
        "create_role",
        role=quote_postgres(name),
        name=name.replace("'", "''"),
        source_role=quote_postgres(group),
        read_only="on" if read_only else "off",
        connections=str(_CONNECTIONS),
        # Base64, colons and dollar signs: nothing that would end a literal.
        verifier=f"'{scram_verifier(name, secret)}'",
        valid_until=f"'{until[0]}'",
    )
    session.execute(text.encode())


def bar(session: Session, name: str, *, patient: bool = True) -> None:
    """Make the role one that nobody can log in as; where there is none, take its name. Needs no open transaction.

    Raises psycopg's LockNotAvailable where somebody keeps the role's row locked: at once, unless it is ``patient``.
    """
    import psycopg

    role = quote_postgres(name)
    with serialized(session, name):
        if not patient:
            session.execute(SQL.text("wait_briefly").encode())
        require_not_renamed(session, name)
        found = role_of(session, name)
        if found is None:
            session.execute(SQL.text("create_tombstone", role=role).encode())
        elif not found.ours:
            raise GateTampered(
                "postgres_role_foreign",
                happened=f"a role named {name} exists that the issuer did not make and may not alter.",
                check="who made it; a superuser has to remove it before the gate can close.",
            )
        session.execute(SQL.text("bar_role", role=role).encode())
        for group in () if found is None else found.memberships:
            try:
                with session.transaction():
                    text = SQL.text("revoke_membership", source_role=quote_postgres(group), role=role)
                    session.execute(text.encode())
            except psycopg.errors.InsufficientPrivilege:
                # Somebody else's grant of somebody else's role: what is left is looked at, and named, afterwards.
                continue
        reach("bar_role", "before")
    reach("bar_role", "applied")


def drop(session: Session, name: str) -> None:
    """Remove a role that only served as a positive control."""
    session.execute(SQL.text("drop_role", role=quote_postgres(name)).encode())


def drop_left_controls(session: Session) -> None:
    """Remove the positive controls whose maker was killed. Another one may be doing the same at this moment."""
    import psycopg

    for (name,) in session.execute(SQL.text("left_controls").encode()).fetchall():
        try:
            drop(session, name)
        except psycopg.InternalError as err:
            _log.info("dropping %s answered: %s", name, " ".join(str(err).split()))


def require_not_renamed(session: Session, name: str) -> None:
    """Refuse where the role that was made under this name lives on under another one, where nobody would look for it."""
    others = [str(other) for (other,) in session.execute(SQL.text("renamed").encode(), {"name": name}).fetchall()]
    if others:
        raise GateTampered(
            "postgres_role_renamed",
            happened=f"the role {name} is called {', '.join(others)} now.",
            not_done="no proof was made.",
            check="who renamed it; a superuser gives it its name back (a tombstone that has it has to go first).",
        )


@contextmanager
def serialized(session: Session, name: str) -> Iterator[None]:
    """A transaction in which no other issuer or closer is at work on this role, unless somebody never gives way."""
    import psycopg

    with session.transaction():
        try:
            with session.transaction():
                session.execute(SQL.text("wait_briefly").encode())
                session.execute(SQL.text("serialize").encode(), {"name": name})
                session.execute(SQL.text("wait_as_usual").encode())
        except psycopg.errors.LockNotAvailable:
            _wait_for_others(session, name)
        yield


def _wait_for_others(session: Session, name: str) -> None:
    """Wait for another issuer or closer of the role. A session of the role itself is none, and is not waited for."""
    import psycopg

    held = session.execute(SQL.text("held_by_itself").encode(), {"name": name}).fetchone()
    if held is not None and held[0]:
        _log.warning("a session of %s holds the advisory lock of its own role; going on without it", name)
        return
    try:
        with session.transaction():
            session.execute(SQL.text("serialize").encode(), {"name": name})
    except psycopg.errors.LockNotAvailable:
        _log.warning("somebody holds the advisory lock of %s and does not give way; going on without it", name)


@contextmanager
def session_as(dsn: PostgresDsn, step: str) -> Iterator[Session]:
    """A session of a standing account in which each statement is a transaction of its own unless one is opened."""
    import psycopg

    with connect(replace(dsn, settings=_SETTINGS)) as session:
        session.autocommit = True
        try:
            yield session
        except psycopg.Error as err:
            raise refusal(err, step, dsn.user) from err


def refusal(err: psycopg.Error, step: str, account: str) -> GuardError:
    """What an error of the server means: a missing right, or a step that can be taken again."""
    said = f"{step} as {account} answered: {' '.join(str(err).split())[:500]}"
    if err.sqlstate == "42501":
        return ConfigurationError(
            "postgres_rights",
            happened=said,
            check="the rights of the PostgreSQL issuer and observer in docs/roles.md.",
            state_may_have_changed=True,
        )
    return ControlUnavailable(
        "postgres_gate",
        happened=said,
        not_done="the step was not finished, or its reply was lost.",
        check="the server, then repeat the same call: every step of the gate can be.",
        state_may_have_changed=True,
    )
