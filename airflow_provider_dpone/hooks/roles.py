"""Which Airflow connection serves which role of the protocol (docs/roles.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.drivers.quoting import as_compared

T = TypeVar("T", covariant=True)

if TYPE_CHECKING:
    from airflow_provider_dpone.composition.services import GuardServices


class _Hook(Protocol[T]):
    def dsn(self) -> T: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardRoles:
    """Connection ids by role. Holds no secret, so an operator and a trigger may carry it.

    A connection that serves two roles gives up a separation on which the protocol's evidence rests, so it must be said:
    `shared` repeats its id. Two connections with one SQL Server login, or with one PostgreSQL role, are the same thing:
    `shared` repeats both.
    """

    controller: str = "dpone_controller"
    issuer: str = "dpone_issuer"
    closer: str = "dpone_closer"
    outcome_reader: str = "dpone_outcome_reader"
    source_reader: str = "dpone_source_reader"
    clickhouse_access: str = "dpone_clickhouse_admin"
    clickhouse_observer: str = "dpone_clickhouse_observer"
    postgres_issuer: str = "dpone_postgres_issuer"
    postgres_observer: str = "dpone_postgres_observer"
    shared: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        named = [getattr(self, field.name) for field in fields(self) if field.name != "shared"]
        twice = sorted({conn_id for conn_id in named if named.count(conn_id) > 1} - set(self.shared))
        if twice:
            raise ConfigurationError(
                "shared_role",
                happened=f"one connection serves several roles: {', '.join(twice)}.",
                check="docs/roles.md; name the connection in `shared` if that is meant.",
            )

    def to_document(self) -> dict[str, str | list[str]]:
        """For a trigger's arguments."""
        return asdict(self) | {"shared": list(self.shared)}

    @classmethod
    def from_document(cls, document: Mapping[str, str | list[str]] | GuardRoles | None) -> GuardRoles:
        if document is None:
            return cls()
        if isinstance(document, cls):
            return document
        assert isinstance(document, Mapping)
        members = {name: str(value) for name, value in document.items() if name != "shared"}
        return cls(**members, shared=tuple(document.get("shared", ())))

    def services(self) -> GuardServices:
        """Read the connections and say where the engines are. Reads secrets: call it in a running task only.

        The issuer and the ClickHouse and PostgreSQL roles are left out when their connections do not exist; a workload
        that needs them is refused by name.
        """
        from airflow_provider_dpone.composition.services import GuardServices
        from airflow_provider_dpone.hooks.clickhouse import DponeClickHouseHook
        from airflow_provider_dpone.hooks.ledger import DponeLedgerHook
        from airflow_provider_dpone.hooks.mssql import DponeMsSqlHook
        from airflow_provider_dpone.hooks.postgres import DponePostgresHook

        ledger = DponeLedgerHook(self.controller)
        controller, issuer = ledger.dsn(), _if_exists(DponeMsSqlHook(self.issuer))
        closer, outcome_reader, source_reader = (
            DponeMsSqlHook(conn_id).dsn() for conn_id in (self.closer, self.outcome_reader, self.source_reader)
        )
        self._require_separate_logins(
            {
                self.controller: controller.user,
                **({} if issuer is None else {self.issuer: issuer.user}),
                self.closer: closer.user,
                self.outcome_reader: outcome_reader.user,
                self.source_reader: source_reader.user,
            }
        )
        postgres = {
            conn_id: _if_exists(DponePostgresHook(conn_id))
            for conn_id in (self.postgres_issuer, self.postgres_observer)
        }
        self._require_separate_logins({conn_id: dsn.user for conn_id, dsn in postgres.items() if dsn is not None})
        postgres_issuer = postgres[self.postgres_issuer]
        return GuardServices(
            ledger=ledger.settings(),
            controller=controller,
            issuer=issuer,
            closer=closer,
            outcome_reader=outcome_reader,
            source_reader=source_reader,
            work_root=work_root(),
            dbt_user=dbt_user(),
            environment=environment(),
            clickhouse_access=_if_exists(DponeClickHouseHook(self.clickhouse_access)),
            clickhouse_observer=_if_exists(DponeClickHouseHook(self.clickhouse_observer)),
            postgres_issuer=postgres_issuer,
            postgres_observer=postgres[self.postgres_observer],
            postgres_source_role=_source_role(None if postgres_issuer is None else self.postgres_issuer),
        )

    def _require_separate_logins(self, logins: Mapping[str, str]) -> None:
        """By connection id. Login names are compared as a server of the usual collation does."""
        for (one, login), (other, same) in combinations(logins.items(), 2):
            if as_compared(login) == as_compared(same) and not {one, other} <= set(self.shared):
                raise ConfigurationError(
                    "shared_role",
                    happened=f"the connections {one} and {other} are one login, {login}: one account for two roles.",
                    check="docs/roles.md; name both connections in `shared` if that is meant.",
                )


def _source_role(conn_id: str | None) -> str:
    """The role that holds what attempts may extract, as the issuer's connection names it."""
    from airflow_provider_dpone.gates.postgres_source import SOURCE_ROLE
    from airflow_provider_dpone.hooks.postgres import DponePostgresHook

    named = None if conn_id is None else DponePostgresHook(conn_id).extra("source_role")
    return named or SOURCE_ROLE


def _if_exists(hook: _Hook[T]) -> T | None:
    from airflow_provider_dpone.hooks.connections import MISSING

    try:
        return hook.dsn()
    except ConfigurationError as err:
        if err.reason != MISSING:
            raise
        return None


def named(task: object, field: str) -> str:
    """What a template field of a task rendered to. Nothing is refused: it must not mean a default that nobody chose."""
    value = getattr(task, field)
    if not isinstance(value, str) or not value.strip():
        raise ConfigurationError(
            "template_empty",
            happened=f"{field} was given, and rendered to {value!r}.",
            check="the template, and what the task that it reads from has returned.",
        )
    return value


class _Rooted(Protocol):
    """A task that may name its folder of activated releases."""

    release_root: str | None
    root_is_named: bool


def root_of(task: _Rooted) -> Path:
    """A task's folder of activated releases. One that it named and that rendered to nothing is not the setting's."""
    return release_root(named(task, "release_root") if task.root_is_named else None)


def release_root(given: str | None) -> Path:
    """The folder of activated releases: the operator's, or the setting's. An empty text is neither."""
    from airflow.sdk.configuration import conf

    root = conf.get("dpone", "release_root", fallback=None) if given is None else given
    if not root or not root.strip():
        raise ConfigurationError(
            "release_root",
            happened="it is not said where the activated releases are.",
            check="the setting [dpone] release_root, or the operator's argument of that name.",
        )
    return Path(root)


def work_root() -> Path:
    """The folder for artifacts of attempts: the setting's, or one in AIRFLOW_HOME."""
    from airflow.configuration import AIRFLOW_HOME
    from airflow.sdk.configuration import conf

    return Path(conf.get("dpone", "work_root", fallback=None) or Path(AIRFLOW_HOME) / "dpone")


def dbt_user() -> str | None:
    """The OS user of the dbt child, as the setting names it; None when dbt runs as the task's own user."""
    from airflow.sdk.configuration import conf

    return conf.get("dpone", "dbt_user", fallback=None) or None


def environment() -> str | None:
    """The environment that this installation says that it is; None when it does not."""
    from airflow.sdk.configuration import conf

    return conf.get("dpone", "environment", fallback=None) or None
