"""The access statements of one attempt's ClickHouse user: their texts, their sending, and what is read back.

A statement is sent once. No reply is not a refusal: ``send`` tells the two apart, and what is idempotent may go again.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING

from airflow_provider_dpone.contracts.errors import ConfigurationError, ControlUnavailable
from airflow_provider_dpone.contracts.principal import Principal
from airflow_provider_dpone.drivers import Secret, load_sql, quote_clickhouse
from airflow_provider_dpone.gates.interface import ClickHouseIngestGrant, ClickHousePublishGrant, Grant

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

USER_EXISTS = 493
UNKNOWN_USER = 192
#: Read-only access storage, and no storage to insert into.
NO_USER_MANAGEMENT = (495, 514)
#: No reply came: the statement may have been carried out, or not.
LOST = -1
_SQL = load_sql("airflow_provider_dpone.gates", "sql/clickhouse_gate.sql")


def hashed(secret: Secret) -> dict[str, str]:
    """Digest and salt as literals; both are hexadecimal by construction. The clear text never leaves this process."""
    salt = secrets.token_hex(16)
    digest = hashlib.sha256((secret.reveal() + salt).encode()).hexdigest()
    return {"digest": f"'{digest}'", "salt": f"'{salt}'"}


def host_clause(host: str) -> str:
    kind, _, value = host.partition(" ")
    if host in ("ANY", "LOCAL") or (kind == "IP" and value.strip("0123456789abcdefABCDEF:./") == "" and value):
        return host if kind != "IP" else f"IP '{value}'"
    raise ConfigurationError("clickhouse_host", happened=f"{host!r} is neither ANY, LOCAL nor IP with an address.")


def _tables(grant: Grant) -> list[tuple[str, str]]:
    if isinstance(grant, ClickHouseIngestGrant):
        return [(grant.database, grant.staging_table)]
    if isinstance(grant, ClickHousePublishGrant):
        return [(grant.database, grant.staging_table), (grant.database, grant.target_table)]
    raise ConfigurationError("clickhouse_grant", happened=f"{type(grant).__name__} is no grant of ClickHouse.")


def grant_statements(principal: Principal, grant: Grant) -> list[str]:
    user = quote_clickhouse(principal.name)
    if isinstance(grant, ClickHouseIngestGrant):
        return [_SQL.text("grant_ingest", staging=quote_clickhouse(*_tables(grant)[0]), user=user)]
    return [_SQL.text("grant_publish", table=quote_clickhouse(*table), user=user) for table in _tables(grant)]


def expected_grants(principal: Principal, grant: Grant) -> list[tuple[str, ...]]:
    publish = ("CREATE TABLE", "DROP TABLE", "INSERT", "SELECT")
    rights = ("INSERT",) if isinstance(grant, ClickHouseIngestGrant) else publish
    return [(right, *table) for table in _tables(grant) for right in rights]


def grants_of(client: Client, principal: Principal) -> list[tuple[str, ...]]:
    """The user's rights, one tuple of right, database and table each, from what SHOW GRANTS prints."""
    rows = client.query(_SQL.text("show_grants", user=quote_clickhouse(principal.name))).result_rows
    found: list[tuple[str, ...]] = []
    for (line,) in rows:
        head, _, rest = str(line).removeprefix("GRANT ").partition(" ON ")
        scope = rest.rpartition(" TO ")[0].replace("`", "")
        database, _, table = scope.partition(".")
        found += [(right.strip(), database, table) for right in head.split(",")]
    return found


def must(client: Client, statement: str, parameters: Mapping[str, str] | None = None) -> None:
    """Send a statement that may be sent again at any time; closing is idempotent, so a lost reply is sent once more."""
    for attempt in (1, 2):
        if send(client, statement, parameters or {}) != LOST:
            return
        if attempt == 2:
            raise ControlUnavailable(
                "clickhouse_no_reply",
                happened="a closing statement was sent twice and not answered.",
                check="the server, then close again: closing is idempotent.",
                state_may_have_changed=True,
            )


def send(
    client: Client,
    statement: str,
    parameters: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
) -> int:
    """Send one statement once. Returns 0, the number of an expected refusal, or LOST when no reply came."""
    from clickhouse_connect.driver.exceptions import DatabaseError, OperationalError

    try:
        client.command(statement, parameters=dict(parameters or {}), settings=dict(settings or {}))
    except OperationalError as err:
        if err.code is None:
            return LOST
        return _expected(err)
    except DatabaseError as err:
        return _expected(err)
    return 0


def _expected(err: Exception) -> int:
    code = getattr(err, "code", None)
    if code in (USER_EXISTS, UNKNOWN_USER, 394):
        return int(code)
    if code in NO_USER_MANAGEMENT:
        raise ConfigurationError(
            "clickhouse_user_management",
            happened="this ClickHouse server cannot store users: its access storage is read-only.",
            not_done="no user was created or changed.",
            check="user_directories in the server's configuration: a local_directory or replicated storage is needed.",
        ) from err
    raise ConfigurationError(
        "clickhouse_refused",
        happened=f"ClickHouse refused an access statement: {err}",
        check="the rights of the account that manages access (ACCESS MANAGEMENT, KILL QUERY).",
    ) from err
