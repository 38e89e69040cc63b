"""ClickHouse clients: clickhouse-connect over HTTP, one replica, no session id, and no repeat of a statement.

Deciding statements go through ``command``, rows through ``raw_insert`` with a generator: since 1.12 those two are
sent once. ``insert``, ``insert_df`` and ``raw_insert`` with bytes are sent again when a reply is lost; do not use them.

A reply that ends among its headers is lost, and is not an empty one: whoever asks for what is left would read "nothing".
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_dpone.contracts.errors import ConfigurationError, ControlUnavailable
from airflow_provider_dpone.drivers.connection_text import require_text
from airflow_provider_dpone.drivers.secret import Secret

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client
    from urllib3 import PoolManager


@dataclass(frozen=True, slots=True, kw_only=True)
class ClickHouseDsn:
    """Where and as whom. ``settings`` are sent with every request."""

    host: str
    port: int = 8123
    database: str = "default"
    user: str
    password: Secret
    secure: bool = False
    verify: bool = True
    app: str = "dpone"
    connect_timeout_seconds: int = 15
    send_receive_timeout_seconds: int = 300

    def for_user(self, user: str, password: Secret, *, app: str | None = None) -> ClickHouseDsn:
        """The same server as another user."""
        return replace(self, user=user, password=password, app=app or self.app)


def connect(dsn: ClickHouseDsn, *, settings: Mapping[str, object] | None = None) -> Client:
    """Open one client with its own HTTP pool. Raises ControlUnavailable when the server does not answer."""
    import clickhouse_connect
    from clickhouse_connect.driver.exceptions import ClickHouseError
    from clickhouse_connect.driver.httputil import get_pool_manager

    version = tuple(int(part) for part in clickhouse_connect.__version__.split(".")[:2])
    if version < (1, 12):
        raise ConfigurationError(
            "clickhouse_connect_version",
            happened="clickhouse-connect is older than 1.12 and may send a statement twice when a reply is lost.",
        )
    require_text("ClickHouse", dsn.password, host=dsn.host, database=dsn.database, user=dsn.user, app=dsn.app)
    try:
        return clickhouse_connect.get_client(
            host=dsn.host,
            port=dsn.port,
            database=dsn.database,
            username=dsn.user,
            password=dsn.password.reveal(),
            interface="https" if dsn.secure else "http",
            verify=dsn.verify,
            connect_timeout=dsn.connect_timeout_seconds,
            send_receive_timeout=dsn.send_receive_timeout_seconds,
            query_retries=0,
            autogenerate_session_id=False,
            client_name=dsn.app,
            settings=dict(settings or {}),
            pool_mgr=_whole_replies(get_pool_manager(verify=dsn.verify)),
        )
    except ClickHouseError as err:
        raise _no_answer(dsn, err) from err


def _whole_replies(pool: PoolManager) -> PoolManager:
    """Refuse a reply that does not say how it ends, as ClickHouse's do: by its length, or by a last chunk.

    Python takes the end of the connection for the end of the headers. What comes after them is then an empty result.
    """
    from urllib3.exceptions import ProtocolError

    request = pool.request

    def whole(*given: Any, **named: Any) -> Any:
        reply = request(*given, **named)
        if not {"content-length", "transfer-encoding"} & {name.lower() for name in reply.headers}:
            reply.close()
            raise ProtocolError("the connection was closed before the headers of the reply had ended")
        return reply

    pool.request = whole  # type: ignore[method-assign]  # the one place where every reply passes
    return pool


class StandingAccount:
    """Clients of one account that is used again and again: a thread's first use opens one, as ``connect`` does.

    A new client asks the server for its version and its settings, thousands of rows, so it is kept. Every use begins
    with a new connection, on which the server has answered: one that idled may be closed under a statement, and whether
    that was done is then unknown.
    """

    def __init__(self, dsn: ClickHouseDsn) -> None:
        self.dsn = dsn
        self._opened = threading.local()

    def client(self) -> Client:
        """For one use: do not keep it, and do not close it. Raises ControlUnavailable when the server does not answer."""
        return self.greeted("SELECT 1")[0]

    def greeted(self, question: str) -> tuple[Client, Sequence[Any]]:
        """The same, and the one row with which the server answered ``question`` on the new connection."""
        from clickhouse_connect.driver.exceptions import ClickHouseError

        client: Client | None = getattr(self._opened, "client", None)
        if client is None:
            self._opened.client = client = connect(self.dsn)
        else:
            client.close_connections()
        try:
            return client, client.query(question).result_rows[0]
        except ClickHouseError as err:
            raise _no_answer(self.dsn, err) from err


def _no_answer(dsn: ClickHouseDsn, err: Exception) -> ControlUnavailable:
    return ControlUnavailable(
        "clickhouse_connect", happened=f"no answer from {dsn.host}:{dsn.port} as {dsn.user}: {err}"
    )
