"""The whole endpoint in this process: PostgreSQL, the engine on it, and the TDS listener."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tsqldev.pgserver import PostgresProcess
from tsqldev.session.engine import SessionEngine
from tsqldev.wire import TdsServer

# A development server: a crash of the machine may cost it its data, `kill -9` does not. One backend a client.
_POSTGRES: dict[str, str | int] = {
    "max_connections": 200,
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "256MB",
    "max_locks_per_transaction": 256,
    "io_method": "sync",
    "jit": "off",
    "autovacuum_naptime": "15s",
    "max_wal_size": "2GB",
}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where clients connect. `certificate` is PEM; the login is `sa` with the password that was given."""

    host: str
    port: int
    certificate: str


@contextlib.contextmanager
def endpoint(data: Path, sa_password: str, *, port: int = 0, trace: Path | None = None) -> Iterator[Endpoint]:
    """Serve until the block ends. `data` keeps everything between starts; the password of sa is set anew at each."""
    with PostgresProcess(data, settings=_POSTGRES) as postgres:
        engine = SessionEngine(postgres.conninfo, sa_password=sa_password, trace=trace)
        try:
            with TdsServer(engine, port=port) as server:
                yield Endpoint(server.host, server.port, server.certificate)
        finally:
            engine.close()
