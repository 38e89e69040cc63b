"""The PostgreSQL gate: one role an attempt, which reads what the source role reads, or calls the seed routine, and is
barred for good at the end.

The role's name is its identity: a PostgreSQL oid cannot be chosen. A name that was dropped and made again would be a
new role with the old one's name while sessions of the old oid live on. So a closed role is never dropped: it stays as a
tombstone that cannot log in and belongs to nothing, which also makes a late issuer's CREATE ROLE fail; and a session
whose role is gone counts as present, whosever it was. Sessions are told by the oid that they logged in with, which
SET ROLE does not change. No password leaves this process: CREATE ROLE carries a verifier that was made here.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from airflow_provider_dpone.contracts.errors import (
    ConfigurationError,
    ControlUnavailable,
    GateTampered,
    NotQuiescent,
    OutcomeUnknown,
)
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.contracts.principal import Connector, Principal, Purpose, new_postgres_principal
from airflow_provider_dpone.drivers import Secret
from airflow_provider_dpone.drivers.postgres import PostgresDsn, connect
from airflow_provider_dpone.drivers.trigger_points import reach
from airflow_provider_dpone.gates import postgres_roles, postgres_seed, postgres_sessions
from airflow_provider_dpone.gates.interface import Credential, Grant, PostgresExtractGrant, PostgresSeedGrant
from airflow_provider_dpone.gates.postgres_roles import MINIMUM_VERSION, SQL, Server, role_of, session_as
from airflow_provider_dpone.gates.postgres_seed import SeedAuthority

if TYPE_CHECKING:
    from airflow_provider_dpone.gates.postgres_roles import Session

SCHEMA = "dpone.postgres-gate-observation.v1"
_CONTROL_LIFETIME = timedelta(minutes=5)
#: How often a role is tried to be barred whose sessions hold it and come back. The last try waits longer.
_BAR_TRIES = 20

_log = logging.getLogger(__name__)


class PostgresGate:
    """Issues, closes and proves the PostgreSQL roles of attempts on one server.

    ``issuer`` may create roles and hand out membership in ``source_role``, and it closes what it made; ``observer``
    sees every session and can do nothing. Both connect to the server itself, never through a pooler. A principal that
    writes (purpose ``ingest``) is one of the seed routine of their database, whose roles ``seed`` names.
    """

    connector: Connector = "postgres"

    def __init__(
        self,
        *,
        issuer: PostgresDsn,
        observer: PostgresDsn,
        source_role: str,
        seed: SeedAuthority | None = None,
        lifetime: timedelta = timedelta(days=1),
        read_interval_seconds: float = 0.25,
        seed_drain_seconds: float = 5.0,
    ) -> None:
        self._issuer = issuer
        self._observer = observer
        self._source_role = source_role
        self._lifetime = lifetime
        self._interval = read_interval_seconds
        self._seed = seed
        self._drain_milliseconds = max(1, round(seed_drain_seconds * 1000))

    @cached_property
    def service_id(self) -> str:
        """Asked of the server once."""
        with session_as(self._observer, "asking the server who it is") as session:
            return postgres_roles.server_of(session).service_id

    def require_ready(self) -> None:
        """Refuse, before anything is admitted, a server or accounts with which no attempt could be issued or proven.

        Whether roles can be made is found out by making one in a transaction that is rolled back.
        """
        with session_as(self._issuer, "looking at the issuer") as issuer:
            server = self._server(issuer)
            if server.version < MINIMUM_VERSION or server.standby:
                what = "a standby" if server.standby else f"version {server.version_text}"
                raise ConfigurationError(
                    "postgres_server",
                    happened=f"the source server is {what}; roles of attempts need a primary of version 16 or newer.",
                    check="which server the connection of the PostgreSQL issuer names.",
                )
            self._require_issuer(issuer, self._source_role)
            if self._seed is not None:
                self._require_issuer(issuer, self._seed.seeder)
                postgres_seed.require_installed(issuer, self._seed)
            with issuer.transaction(force_rollback=True):
                name = f"dpone_c_{uuid.uuid4().hex}"
                postgres_roles.create(issuer, name, Secret.generate(), self._source_role, _CONTROL_LIFETIME)
        with session_as(self._observer, "looking at the observer") as observer:
            self._server(observer)
            self._require_sight(observer)

    def _require_issuer(self, issuer: Session, group: str) -> None:
        row = issuer.execute(SQL.text("issuer").encode(), {"source_role": group}).fetchone()
        assert row is not None
        creates, superuser, exists, administers = row
        wrong = [
            text
            for text, bad in (
                ("is a superuser", superuser),
                ("may not create roles", not creates),
                (f"finds no role {group}", not exists),
                (f"may not grant membership in {group}", exists and not administers),
            )
            if bad
        ]
        if wrong:
            raise ConfigurationError(
                "postgres_issuer_rights",
                happened=f"{self._issuer.user}, the PostgreSQL issuer, {' and '.join(wrong)}.",
                not_done="nothing was admitted or created.",
                check="`dponectl source render`, and the role issuer in docs/roles.md.",
            )

    def _require_sight(self, observer: Session) -> None:
        row = observer.execute(SQL.text("may_observe").encode()).fetchone()
        if row is None or not row[0]:
            raise ConfigurationError(
                "postgres_observer_rights",
                happened=f"{self._observer.user} may not see the sessions of other roles: it would see less, and no error.",
                not_done="no absence was concluded.",
                check="GRANT pg_read_all_stats TO the observer.",
            )

    def new_principal(self, purpose: Purpose) -> Principal:
        """A random role identity of this server, which is asked who it is the first time."""
        return new_postgres_principal(self.service_id, purpose)

    def issue(self, operation: Operation, principal: Principal, grant: Grant) -> Credential:
        """Create the journaled role with its one membership, and log in with it once."""
        import psycopg

        self._ours(principal)
        group, database = self._group_of(principal, grant)
        secret = Secret.generate()
        name = principal.name
        with session_as(self._issuer, f"creating {name}") as issuer:
            self._server(issuer)
            if isinstance(grant, PostgresSeedGrant):
                postgres_seed.require_installed(issuer, self._seeding())
            try:
                with postgres_roles.serialized(issuer, name):
                    if role_of(issuer, name) is not None:
                        raise _exists(name)
                    seeds = isinstance(grant, PostgresSeedGrant)
                    postgres_roles.create(issuer, name, secret, group, self._lifetime, read_only=not seeds)
                    if isinstance(grant, PostgresSeedGrant):
                        postgres_seed.open_gate(issuer, operation.attempt_sha256, name, grant.plan_sha256)
                    reach("create_role", "before")
                reach("create_role", "applied")
            except (psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation) as err:
                raise _exists(name) from err
            except psycopg.OperationalError as err:
                if err.sqlstate is not None:
                    raise
                # No reply is not a refusal: whether the role is there, its own login tells.
                _log.info("the creation of %s was not answered: %s", name, " ".join(str(err).split()))
        self._verify_issued(operation, principal, secret, database, group)
        reach("create_role", "acknowledged")
        return Credential(username=name, secret=secret)

    def _group_of(self, principal: Principal, grant: Grant) -> tuple[str, str]:
        """What the role becomes a member of, and in which database: the one thing that it is for."""
        if isinstance(grant, PostgresExtractGrant) and not _seeds(principal):
            return self._source_role, grant.database
        if isinstance(grant, PostgresSeedGrant) and _seeds(principal):
            if grant.database != self._issuer.database:
                raise ConfigurationError(
                    "postgres_seed_database",
                    happened=f"a seed of {grant.database} was asked of the gate of {self._issuer.database}.",
                    not_done="nothing was issued.",
                )
            return self._seeding().seeder, grant.database
        raise ConfigurationError(
            "grant", happened="a PostgreSQL role is granted the source role, or a seed if it ingests, and nothing else."
        )

    def _seeding(self) -> SeedAuthority:
        if self._seed is None:
            raise ConfigurationError(
                "postgres_seed_absent", happened="this gate was given no roles of a seed routine: it seeds nothing."
            )
        return self._seed

    def _verify_issued(
        self, operation: Operation, principal: Principal, secret: Secret, database: str, group: str
    ) -> None:
        """Only the holder of this secret can log in; a role that a closer barred meanwhile cannot."""
        import psycopg

        app = f"dpone {operation.digest_prefix} verify"
        dsn = self._issuer.for_role(principal.name, secret, app=app, database=database)
        dsn = replace(dsn, settings=(("search_path", "pg_catalog"),))
        try:
            with connect(dsn) as session:
                server, role = postgres_roles.server_of(session), role_of(session, principal.name)
                own = session.execute(SQL.text("own_session").encode()).fetchone()
                only_seeds = _seeds(principal) and postgres_seed.may_only_seed(session)
        except (ControlUnavailable, psycopg.Error) as err:
            said = " ".join(str(err).split())[:500]
            raise OutcomeUnknown(
                "postgres_role_unverified",
                happened=f"the role {principal.name} has no session in {database}: it was not created, or closed.",
                check=f"CONNECT on {database} of {group}, and pg_hba.conf. It was answered: {said}",
            ) from err
        assert own is not None
        user, read_only, writable = own
        memberships = () if role is None else role.memberships
        wanted = "off" if _seeds(principal) else "on"
        if (user, read_only, memberships) != (principal.name, wanted, (group,)) or only_seeds != _seeds(principal):
            raise GateTampered(
                "postgres_role_not_as_issued",
                happened=f"the session of {principal.name} is {user}, member of {list(memberships)}, read-only {read_only}.",
            )
        if server.service_id != self.service_id or server.standby:
            raise GateTampered(
                "postgres_service", happened="the role's own session is on another server, or a standby."
            )
        if writable:
            raise ConfigurationError(
                "postgres_source_writable",
                happened=f"{group} can do more than it is for in {database}: {', '.join(writable)}.",
                not_done="nothing was read or written.",
                check="what is granted to it, and to PUBLIC, on these; a server that was upgraded from PostgreSQL 14 or older"
                " may need REVOKE CREATE ON SCHEMA public FROM PUBLIC.",
            )

    def close(self, operation: Operation, principal: Principal) -> Mapping[str, object]:
        """Bar the role for good, then end its sessions. Works also when the role was never created."""
        self._ours(principal)
        with session_as(self._issuer, f"closing {principal.name}") as issuer:
            self._server(issuer)
            self._bar(issuer, principal.name)
            if _seeds(principal):
                postgres_seed.close_behind_the_last(
                    issuer,
                    operation.attempt_sha256,
                    principal.name,
                    milliseconds=self._drain_milliseconds,
                    end=lambda: self._end_own(issuer, principal.name),
                )
            self._end_own(issuer, principal.name)
            role = role_of(issuer, principal.name)
        if role is None or not role.closed:
            raise _open(principal, role)
        reach("bar_role", "acknowledged")
        return self._observation(operation, principal, "CLOSED_GATES")

    def _bar(self, issuer: Session, name: str) -> None:
        """Bar the role, also where its own sessions keep its row locked (it may set its password), and come back."""
        import psycopg

        try:
            postgres_roles.bar(issuer, name, patient=False)
        except (psycopg.errors.LockNotAvailable, psycopg.errors.InternalError_) as err:
            role = role_of(issuer, name)
            if role is None:
                raise
            _log.warning("%s is held (%s); it is barred while its sessions are ended", name, " ".join(str(err).split()))
            # The barring waits in the row's queue meanwhile: whoever comes back stands behind it.
            with postgres_sessions.ended_meanwhile(self._issuer, name, role.oid):
                for _ in range(_BAR_TRIES):
                    try:
                        postgres_roles.bar(issuer, name, patient=False)
                    except (psycopg.errors.LockNotAvailable, psycopg.errors.InternalError_):
                        continue
                    return
                postgres_roles.bar(issuer, name)

    def _end_own(self, issuer: Session, name: str) -> None:
        """End the sessions of a role, if there is such a role."""
        role = role_of(issuer, name)
        if role is not None:
            postgres_sessions.end(issuer, name, role.oid)

    def prove_quiescent(self, operation: Operation, principal: Principal) -> Mapping[str, object]:
        """Evidence that the closed role has no session and no transaction: a positive control, then two reads apart."""
        self._ours(principal)
        name = principal.name
        with (
            session_as(self._issuer, f"ending sessions of {name}") as issuer,
            session_as(self._observer, f"looking for {name}") as observer,
        ):
            self._server(issuer)
            server = self._server(observer)
            self._require_sight(observer)
            postgres_roles.require_not_renamed(observer, name)
            seeded = {}
            if _seeds(principal):
                seeded = postgres_seed.closed_evidence(observer, self._seeding(), operation.attempt_sha256, name)
            role = role_of(observer, name)
            if role is None or not role.closed:
                raise _open(principal, role)
            with self._positive_control(issuer, observer) as control:
                # A login that passed just before the closing may have become a session after it.
                postgres_sessions.end(issuer, name, role.oid)
                reads = [postgres_sessions.look(observer, name, role.oid)]
                time.sleep(self._interval)
                reads.append(postgres_sessions.look(observer, name, role.oid))
        if present := postgres_sessions.present(reads):
            raise NotQuiescent(sessions=present)
        return {
            **self._observation(operation, principal, "QUIESCENCE"),
            "positive_control": control,
            "sessions": [],
            "starting": [],
            "prepared_transactions": [],
            "reads": len(reads),
            "server_version": server.version_text,
            "observer": server.account,
            **seeded,
        }

    @contextmanager
    def _positive_control(self, issuer: Session, observer: Session) -> Iterator[Mapping[str, object]]:
        """Log in as a role made for this, like an attempt's, and see that session with the observer's eyes.

        The role is dropped when its session is gone: that of a dropped role would count as present.
        """
        name, secret = f"dpone_c_{uuid.uuid4().hex}", Secret.generate()
        with issuer.transaction():
            postgres_roles.create(issuer, name, secret, self._source_role, _CONTROL_LIFETIME)
        pid = 0
        try:
            role = role_of(issuer, name)
            with connect(self._issuer.for_role(name, secret, app="dpone positive control")) as control:
                pid = control.info.backend_pid
                seen = postgres_sessions.seen_as(observer, pid)
            if role is None or seen != role.oid:
                raise ConfigurationError(
                    "postgres_observer_blind",
                    happened=f"the observer saw {seen} where a session of {name} was there.",
                    not_done="no absence was concluded.",
                    check="pg_read_all_stats of the observer, and that both accounts reach the same server, no pooler.",
                )
            yield {"role_name": name, "pid": pid, "seen": True}
        finally:
            postgres_sessions.wait_gone(observer, pid, seconds=5.0)
            postgres_roles.drop(issuer, name)
            postgres_roles.drop_left_controls(issuer)

    def _observation(self, operation: Operation, principal: Principal, kind: str) -> dict[str, object]:
        return {
            "schema": SCHEMA,
            "kind": kind,
            "attempt_sha256": operation.attempt_sha256,
            "service_id": self.service_id,
            "principal_id": principal.principal_id,
            "role_name": principal.name,
            "tombstone": True,
            "login": False,
            "memberships": [],
        }

    def _server(self, session: Session) -> Server:
        server = postgres_roles.server_of(session)
        if server.service_id != self.service_id:
            raise GateTampered(
                "postgres_service",
                happened=f"{server.account} is on server {server.service_id}; the principals belong to {self.service_id}.",
                not_done="nothing was changed there.",
            )
        return server

    def _ours(self, principal: Principal) -> None:
        if principal.connector != "postgres" or principal.service_id != self.service_id:
            raise ConfigurationError(
                "postgres_principal",
                happened=f"the gate of PostgreSQL server {self.service_id} was given a principal of another service.",
            )


def _seeds(principal: Principal) -> bool:
    """Whether the principal writes: on PostgreSQL that is a call of the seed routine."""
    return principal.purpose == "ingest"


def _exists(name: str) -> GateTampered:
    return GateTampered(
        "postgres_role_exists",
        happened=f"the role {name} exists already: it was closed, or somebody made it.",
        not_done="no credential was issued.",
    )


def _open(principal: Principal, role: postgres_roles.Role | None) -> GateTampered:
    left: Sequence[str] = ("it does not exist",) if role is None else postgres_roles.open_by(role)
    return GateTampered(
        "postgres_role_open",
        happened=f"the role {principal.name} is not closed: {', '.join(left)}.",
        not_done="no proof was made.",
        check="who changes roles on this server; a tombstone that was dropped is made again by CREATE ROLE ... NOLOGIN"
        " VALID UNTIL '2000-01-01'.",
    )
