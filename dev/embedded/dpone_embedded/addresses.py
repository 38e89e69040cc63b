"""Where the services of a running stack listen and how to log in. Lives in memory and in one 0600 file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class SqlServer:
    """The T-SQL endpoint; `user` is sa. TLS with a self-signed certificate: clients must trust it."""

    host: str
    port: int
    user: str = "sa"
    password: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Postgres:
    """One server; `user` is its superuser. `databases` maps a use (airflow, flights_ops) to a database name."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    databases: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class ClickHouse:
    """The HTTP interface behind the access proxy; `user` may create users and grant, the observer only reads."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    observer_user: str
    observer_password: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Airflow:
    """The API server, which also serves the UI. `home` is AIRFLOW_HOME; `dags_folder` is what it parses."""

    url: str
    user: str
    password: str = field(repr=False)
    home: str
    dags_folder: str


@dataclass(frozen=True, kw_only=True)
class Addresses:
    """Every service that was started; None for one that the caller left out."""

    sqlserver: SqlServer | None = None
    postgres: Postgres | None = None
    clickhouse: ClickHouse | None = None
    airflow: Airflow | None = None

    def to_document(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Addresses:
        kinds: dict[str, type] = {
            "sqlserver": SqlServer,
            "postgres": Postgres,
            "clickhouse": ClickHouse,
            "airflow": Airflow,
        }
        return cls(**{name: kinds[name](**value) for name, value in document.items() if value is not None})
