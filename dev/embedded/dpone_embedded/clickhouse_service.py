"""The ClickHouse engine with its access proxy."""

from __future__ import annotations

from threading import Event

from dpone_embedded import addresses
from dpone_embedded.clickhouse.server import ClickHouseServer, ClickHouseUnavailable
from dpone_embedded.errors import StackError
from dpone_embedded.statedir import StateDir


class ClickHouseService:
    """Keeps its passwords over restarts; the port changes."""

    name = "clickhouse"

    def __init__(self, state: StateDir) -> None:
        self._state = state
        self._server = ClickHouseServer(state.data(self.name))
        self._address: addresses.ClickHouse | None = None

    def start(self, stop: Event) -> None:
        try:
            endpoint = self._server.start()
        except ClickHouseUnavailable as err:
            raise StackError(str(err)) from err
        self._address = addresses.ClickHouse(
            host=endpoint.host,
            port=endpoint.port,
            user=endpoint.admin_user,
            password=endpoint.admin_password,
            observer_user=endpoint.observer_user,
            observer_password=endpoint.observer_password,
        )

    @property
    def address(self) -> addresses.ClickHouse:
        if self._address is None:
            raise StackError("ClickHouse has not started.")
        return self._address

    def check(self) -> None:
        if (code := self._server.process.poll()) is not None:
            logs = ", ".join(str(path) for path in self._server.log_files)
            raise StackError(f"ClickHouse ended with exit code {code}. Its logs: {logs}.")

    def stop(self) -> None:
        self._server.stop()
