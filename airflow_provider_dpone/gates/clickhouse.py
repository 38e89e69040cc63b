"""The ClickHouse gate: one SQL user an attempt and purpose, barred for good when it ends.

Order matters here. An HTTP INSERT is invisible in ``system.processes`` until 256 KiB or the end of its body
arrived, so an empty process list proves nothing by itself: closing first takes the login and every right away, then
kills what runs. The closed user stays as a tombstone under its name (no host, expired, unknown password, no
rights), so that a late issuer's CREATE USER fails instead of opening the gate again.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from airflow_provider_dpone.contracts.errors import (
    ConfigurationError,
    ControlUnavailable,
    GateTampered,
    NotQuiescent,
    OutcomeUnknown,
)
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.contracts.principal import Connector, Principal, Purpose, new_clickhouse_principal
from airflow_provider_dpone.drivers import Secret, load_sql, quote_clickhouse
from airflow_provider_dpone.drivers.clickhouse import ClickHouseDsn, StandingAccount, connect
from airflow_provider_dpone.drivers.trigger_points import reach
from airflow_provider_dpone.gates.clickhouse_names import retired_table, staging_table, staging_uuid
from airflow_provider_dpone.gates.clickhouse_users import (
    LOST,
    USER_EXISTS,
    expected_grants,
    grant_statements,
    grants_of,
    hashed,
    host_clause,
    must,
    send,
)
from airflow_provider_dpone.gates.interface import Credential, Grant

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

SCHEMA = "dpone.clickhouse-gate-observation.v1"
_EXPIRED = "'2000-01-01 00:00:00'"
_SQL = load_sql("airflow_provider_dpone.gates", "sql/clickhouse_gate.sql")


class ClickHouseGate:
    """Issues, closes and proves the ClickHouse users of attempts on one server.

    ``access`` manages users (ACCESS MANAGEMENT and KILL QUERY); ``observer`` has SELECT on everything and writes
    nothing. ``host`` is the clause that says from where a writer may log in: ANY, LOCAL, or IP with a literal.
    """

    connector: Connector = "clickhouse"

    def __init__(
        self,
        *,
        service_id: str,
        access: ClickHouseDsn,
        observer: ClickHouseDsn,
        host: str = "ANY",
        lifetime: timedelta = timedelta(days=1),
        read_interval_seconds: float = 0.25,
    ) -> None:
        self.service_id = service_id
        self._access = StandingAccount(access)
        self._observer = StandingAccount(observer)
        self._host = host_clause(host)
        self._lifetime = lifetime
        self._interval = read_interval_seconds

    def require_ready(self) -> None:
        """Refuse, before anything is admitted, a server or accounts with which no attempt could be issued or proven.

        Whether users can be stored is found out by making one that can never log in, and dropping it.
        """
        access = self._access_client()
        if str(access.command(_SQL.text("may_manage"))) != "1":
            raise ConfigurationError(
                "clickhouse_access_rights",
                happened=f"{self._access.dsn.user} may not manage users, or may not kill their queries.",
                check="GRANT ACCESS MANAGEMENT, KILL QUERY ON *.* to the account of dpone_clickhouse_admin.",
            )
        user = quote_clickhouse(f"dpone_c_{uuid.uuid4().hex}")
        must(access, _SQL.text("create_tombstone", user=user, valid_until=_EXPIRED, **hashed(Secret.generate())))
        must(access, _SQL.text("drop_user", user=user))
        observer, _ = self._greeted(self._observer)
        self._require_sight(observer)

    def _require_sight(self, observer: Client) -> None:
        if str(observer.command(_SQL.text("may_observe"))) != "1":
            raise ConfigurationError(
                "clickhouse_observer_rights",
                happened=f"{self._observer.dsn.user} may not see every table: it would see fewer rows, and no error.",
                check="GRANT SELECT, SHOW TABLES ON *.* to the observer.",
            )

    def new_principal(self, purpose: Purpose) -> Principal:
        """A random user identity of this server. No I/O."""
        return new_clickhouse_principal(self.service_id, purpose)

    def issue(self, operation: Operation, principal: Principal, grant: Grant) -> Credential:
        """Create the journaled user with exactly the rights of ``grant`` and log in with it once."""
        self._ours(principal)
        client = self._access_client()
        secret = Secret.generate()
        valid_until = datetime.now(UTC) + self._lifetime
        statement = _SQL.text(
            "create_user",
            user=quote_clickhouse(principal.name),
            valid_until=f"'{valid_until:%Y-%m-%d %H:%M:%S}'",
            host=self._host,
            **hashed(secret),
        )
        reach("create_user", "before")
        created = send(client, statement)
        reach("create_user", "applied")
        if created == USER_EXISTS:
            raise GateTampered(
                "clickhouse_user_exists",
                happened=f"the user {principal.name} exists already: it was closed, or somebody made it.",
                not_done="no credential was issued.",
            )
        for text in grant_statements(principal, grant):
            if send(client, text) not in (0, LOST):
                raise OutcomeUnknown(
                    "clickhouse_user_missing",
                    happened=f"the creation of {principal.name} was not answered and the user is not there.",
                )
        self._verify_issued(principal, secret, grant)
        reach("create_user", "acknowledged")
        return Credential(username=principal.name, secret=secret)

    def _verify_issued(self, principal: Principal, secret: Secret, grant: Grant) -> None:
        """Only the holder of this secret can log in; a user that a closer barred meanwhile cannot."""
        client = self._access_client()
        found = sorted(grants_of(client, principal))
        wanted = sorted(expected_grants(principal, grant))
        if found != wanted:
            raise OutcomeUnknown(
                "clickhouse_grants",
                happened=f"the rights of {principal.name} read back as {found}, expected {wanted}.",
            )
        try:
            writer = connect(self._access.dsn.for_user(principal.name, secret))
        except ControlUnavailable as err:
            raise OutcomeUnknown(
                "clickhouse_user_unverified",
                happened=f"{principal.name} was created and cannot log in; it may have been closed meanwhile.",
            ) from err
        writer.close()

    def close(self, operation: Operation, principal: Principal) -> Mapping[str, object]:
        """Bar the user for good, then kill what it runs. Works also when the user was never created."""
        self._ours(principal)
        client = self._access_client()
        user = quote_clickhouse(principal.name)
        reach("bar_user", "before")
        for name in ("create_tombstone", "bar_user"):
            must(client, _SQL.text(name, user=user, valid_until=_EXPIRED, **hashed(Secret.generate())))
        must(client, _SQL.text("revoke_all", user=user))
        reach("bar_user", "applied")
        must(client, _SQL.text("kill_queries"), {"user": principal.name})
        document = self._closed(self._access_client(), operation, principal)
        if document is None:
            raise GateTampered(
                "clickhouse_user_open",
                happened=f"after closing, {principal.name} still has a host to log in from, or rights.",
                check="whether another account changes users on this server.",
            )
        reach("bar_user", "acknowledged")
        return document

    def _closed(self, client: Client, operation: Operation, principal: Principal) -> Mapping[str, object] | None:
        rows = client.query(_SQL.text("user"), parameters={"user": principal.name}).result_rows
        if len(rows) != 1 or rows[0][1] or grants_of(client, principal):
            return None
        return {
            "schema": SCHEMA,
            "kind": "CLOSED_GATES",
            "attempt_sha256": operation.attempt_sha256,
            "service_id": self.service_id,
            "principal_id": principal.principal_id,
            "user_name": principal.name,
            "tombstone": True,
            "hosts": [],
            "grants": [],
            # Where the server keeps the user; the embedded stack's proxy says here that it is an emulation.
            "access_storage": rows[0][0],
        }

    def prove_quiescent(self, operation: Operation, principal: Principal) -> Mapping[str, object]:
        """Evidence that nothing of the closed user runs or is queued: two reads apart, and a positive control between."""
        self._ours(principal)
        access = self._access_client()
        closed = self._closed(access, operation, principal)
        if closed is None:
            raise GateTampered(
                "clickhouse_gate_not_closed",
                happened=f"quiescence of {principal.name} was asked for and its gate is not closed.",
                not_done="no proof was made.",
            )
        observer, identity = self._greeted(self._observer)
        self._require_sight(observer)
        self._require_nothing_left(observer, operation, principal)
        first_read = time.monotonic()
        control = self._positive_control(access, observer)
        time.sleep(max(0.0, first_read + self._interval - time.monotonic()))
        self._require_nothing_left(observer, operation, principal)
        return {
            "schema": SCHEMA,
            "kind": "QUIESCENCE",
            "attempt_sha256": operation.attempt_sha256,
            "service_id": self.service_id,
            "principal_id": principal.principal_id,
            "user_name": principal.name,
            "positive_control": control,
            "processes": [],
            "queued_work": [],
            "reads": 2,
            "server_version": identity["server_version"],
            "observer": identity["observer"],
            "access_storage": closed["access_storage"],
        }

    def _require_nothing_left(self, observer: Client, operation: Operation, principal: Principal) -> None:
        if left := self._left_over(observer, operation, principal):
            raise NotQuiescent(sessions=left)

    def _left_over(self, observer: Client, operation: Operation, principal: Principal) -> list[Mapping[str, object]]:
        processes = observer.query(_SQL.text("processes"), parameters={"user": principal.name}).result_rows
        attempt = operation.attempt_sha256
        places = observer.query(
            _SQL.text("staging_now"),
            parameters={
                "uuid": str(staging_uuid(attempt)),
                "staging": staging_table(attempt),
                "retired": retired_table(attempt),
            },
        ).result_rows
        tables = [f"{database}.{name}" for database, name in places]
        queued = observer.query(_SQL.text("queued_work"), parameters={"tables": tables}).result_rows if tables else []
        running = [
            {"user": principal.name, "query_id": query_id, "kind": kind, "elapsed_ms": elapsed}
            for query_id, kind, elapsed in processes
        ]
        return running + [{"user": principal.name, "queued": kind, "place": place} for kind, place, _ in queued]

    def _positive_control(self, access: Client, observer: Client) -> Mapping[str, object]:
        """Run a statement as a user made for this, and see it, under its name, with the observer's eyes."""
        name, query_id, secret = f"dpone_c_{uuid.uuid4().hex}", str(uuid.uuid4()), Secret.generate()
        user = quote_clickhouse(name)
        soon = f"'{datetime.now(UTC) + timedelta(minutes=5):%Y-%m-%d %H:%M:%S}'"
        must(access, _SQL.text("create_user", user=user, valid_until=soon, host=self._host, **hashed(secret)))
        try:
            subject = connect(self._access.dsn.for_user(name, secret))
            seen = None
            for seconds in ("0.1", "1", "3"):
                seen = seen or _watch(subject, observer, query_id, seconds)
        finally:
            must(access, _SQL.text("drop_user", user=user))
        if seen != name:
            raise ConfigurationError(
                "clickhouse_observer_blind",
                happened=f"the observer saw {seen!r} where a statement of {name} was running.",
                not_done="no absence was concluded.",
                check="the observer's SELECT right on system.processes.",
            )
        return {"user_name": name, "query_id": query_id, "seen": True}

    def _access_client(self) -> Client:
        return self._greeted(self._access)[0]

    def _greeted(self, account: StandingAccount) -> tuple[Client, Mapping[str, str]]:
        """A client of the server whose users these are, and what the server says of itself."""
        client, (service_id, version, who) = account.greeted(_SQL.text("service"))
        if service_id != self.service_id:
            raise GateTampered(
                "clickhouse_service",
                happened=f"the server says it is {service_id}; the principals belong to {self.service_id}.",
                not_done="nothing was changed there.",
            )
        return client, {"service_id": service_id, "server_version": version, "observer": who}

    def _ours(self, principal: Principal) -> None:
        if principal.connector != "clickhouse" or principal.service_id != self.service_id:
            raise ConfigurationError(
                "clickhouse_principal",
                happened=f"the gate of ClickHouse server {self.service_id} was given a principal of another service.",
            )


def _watch(subject: Client, observer: Client, query_id: str, seconds: str) -> str | None:
    """Whom the observer sees as the user of a statement that ``subject`` runs for this long; None: it saw nothing."""
    running = threading.Thread(
        target=send,
        args=(subject, _SQL.text("control_statement"), {"seconds": seconds}, {"query_id": query_id}),
        daemon=True,
    )
    running.start()
    seen = None
    while seen is None and running.is_alive():
        rows = observer.query(_SQL.text("process_user"), parameters={"query_id": query_id}).result_rows
        seen = str(rows[0][0]) if rows else None
    running.join()
    return seen
