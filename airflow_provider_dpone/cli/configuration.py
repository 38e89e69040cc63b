"""The command line's configuration: one TOML file that names accounts and, for each, where its password is.

service_id = "3f1c…"                 # the ledger's service id
release_root = "/srv/dpone"          # where activations and releases are kept
environment = "production"           # optional: releases of another environment are refused

[mssql]
host = "sql.example"
port = 1433
control_database = "dpone_control"
trust_server_certificate = false
login_timeout = 15                   # seconds; [clickhouse] and [postgres] have connect_timeout

[mssql.roles.controller]
user = "dpone_controller"
password_file = "/run/secrets/controller"   # or password_env = "NAME"

[mssql.roles.closer]                 # issuer (left out by who only settles), outcome_reader, source_reader, installer
user = "dpone_closer"
password_env = "DPONE_CLOSER_PASSWORD"

[mssql.roles.source_reader]
same_as = "outcome_reader"           # one account for two roles is said, never assumed

[clickhouse]
host = "ch.example"
port = 8443
secure = true
[clickhouse.roles.access]            # and observer
…

[postgres]
host = "pg.example"
port = 5432
database = "shop"                    # one that the source role may connect to
source_role = "dpone_source_reader"  # holds what attempts may extract
[postgres.roles.issuer]              # and observer
…
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow_provider_dpone.composition.services import GuardServices
from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.drivers import Secret
from airflow_provider_dpone.drivers.clickhouse import ClickHouseDsn
from airflow_provider_dpone.drivers.mssql import MsSqlDsn
from airflow_provider_dpone.drivers.postgres import PostgresDsn
from airflow_provider_dpone.drivers.quoting import as_compared
from airflow_provider_dpone.gates.postgres_source import SOURCE_ROLE
from airflow_provider_dpone.ledger import LedgerSettings


class Configuration:
    """A read configuration file. Accounts are resolved when a command asks for them."""

    def __init__(self, document: Mapping[str, Any], origin: str) -> None:
        self._document = document
        self._origin = origin

    @classmethod
    def read(cls, path: Path) -> Configuration:
        try:
            return cls(tomllib.loads(path.read_text(encoding="utf-8")), str(path))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as err:
            raise ConfigurationError("configuration_file", happened=f"{path}: {err}.") from err

    @property
    def release_root(self) -> Path:
        return Path(self._text(self._document, "release_root", "the top level"))

    @property
    def ledger(self) -> LedgerSettings:
        return LedgerSettings(service_id=self._text(self._document, "service_id", "the top level"))

    def mssql(self, role: str, *, database: str | None = None) -> MsSqlDsn:
        """The account of one role on the ledger's instance, in the control database unless another is named."""
        section = self._section("mssql")
        user, password = self._account("mssql", role)
        return MsSqlDsn(
            host=self._text(section, "host", "[mssql]"),
            port=self._port(section, 1433, "[mssql]"),
            database=database or self._text(section, "control_database", "[mssql]"),
            user=user,
            password=password,
            trust_server_certificate=self._flag(section, "trust_server_certificate", "[mssql]"),
            login_timeout_seconds=self._seconds(section, "login_timeout", 15, "[mssql]"),
        )

    def services(self) -> GuardServices:
        self._require_separate_logins()
        return GuardServices(
            ledger=self.ledger,
            controller=self.mssql("controller"),
            issuer=self.mssql("issuer") if "issuer" in self._roles("mssql") else None,
            closer=self.mssql("closer"),
            outcome_reader=self.mssql("outcome_reader"),
            source_reader=self.mssql("source_reader"),
            work_root=self.release_root / "attempts",
            clickhouse_access=self._clickhouse("access"),
            clickhouse_observer=self._clickhouse("observer"),
            postgres_issuer=self._postgres("issuer"),
            postgres_observer=self._postgres("observer"),
            postgres_source_role=self._source_role(),
            environment=self._text(self._document, "environment", "the top level")
            if "environment" in self._document
            else None,
        )

    def _require_separate_logins(self) -> None:
        """Two sections with one login are one account for two roles, which `same_as` has to say."""
        for engine in ("mssql", "postgres"):
            seen: dict[str, str] = {}
            for role, account in self._roles(engine).items() if engine in self._document else ():
                if isinstance(account, dict) and isinstance(login := account.get("user"), str):
                    other = seen.setdefault(as_compared(login), role)
                    if other != role:
                        raise self._wrong(
                            f"[{engine}.roles.{role}] is the login of [{engine}.roles.{other}];"
                            " say same_as if that is meant"
                        )

    def _clickhouse(self, role: str) -> ClickHouseDsn | None:
        if "clickhouse" not in self._document:
            return None
        section = self._section("clickhouse")
        user, password = self._account("clickhouse", role)
        return ClickHouseDsn(
            host=self._text(section, "host", "[clickhouse]"),
            port=self._port(section, 8123, "[clickhouse]"),
            secure=self._flag(section, "secure", "[clickhouse]"),
            connect_timeout_seconds=self._seconds(section, "connect_timeout", 15, "[clickhouse]"),
            user=user,
            password=password,
        )

    def _postgres(self, role: str) -> PostgresDsn | None:
        if "postgres" not in self._document:
            return None
        section = self._section("postgres")
        user, password = self._account("postgres", role)
        return PostgresDsn(
            host=self._text(section, "host", "[postgres]"),
            port=self._port(section, 5432, "[postgres]"),
            database=self._text(section, "database", "[postgres]"),
            connect_timeout_seconds=self._seconds(section, "connect_timeout", 15, "[postgres]"),
            user=user,
            password=password,
        )

    def _source_role(self) -> str:
        named = self._document.get("postgres", {})
        return self._text(named, "source_role", "[postgres]") if "source_role" in named else SOURCE_ROLE

    def _section(self, name: str) -> Mapping[str, Any]:
        section = self._document.get(name)
        if not isinstance(section, dict):
            raise self._wrong(f"[{name}] is missing")
        return section

    def _account(self, engine: str, role: str, seen: tuple[str, ...] = ()) -> tuple[str, Secret]:
        where = f"[{engine}.roles.{role}]"
        account = self._roles(engine).get(role)
        if not isinstance(account, dict):
            raise self._wrong(f"{where} is missing")
        if "same_as" in account:
            if role in seen:
                raise self._wrong(f"{where} is the same as itself")
            return self._account(engine, self._text(account, "same_as", where), (*seen, role))
        return self._text(account, "user", where), self._password(account, where)

    def _roles(self, engine: str) -> Mapping[str, Any]:
        roles = self._section(engine).get("roles")
        return roles if isinstance(roles, dict) else {}

    def _password(self, account: Mapping[str, Any], where: str) -> Secret:
        if "password_file" in account:
            path = Path(self._text(account, "password_file", where))
            try:
                value = path.read_text(encoding="utf-8").rstrip("\n")
            except (OSError, ValueError) as err:
                # Not the error's own text: that of a decoding error repeats what stands in the file.
                reason = err.strerror if isinstance(err, OSError) else "it is not UTF-8"
                raise self._wrong(f"{where} names the password file {path}: {reason}") from None
        elif "password_env" in account:
            name = self._text(account, "password_env", where)
            value = os.environ.get(name, "")
        else:
            raise self._wrong(f"{where} has neither password_file nor password_env")
        if not value:
            raise self._wrong(f"the password of {where} is empty or unset")
        return Secret(value)

    def _text(self, section: Mapping[str, Any], name: str, where: str) -> str:
        value = section.get(name)
        if not isinstance(value, str) or not value:
            raise self._wrong(f"{where} has no text {name!r}")
        return value

    def _port(self, section: Mapping[str, Any], default: int, where: str) -> int:
        value = section.get("port", default)
        if type(value) is not int or not 0 < value < 65536:
            raise self._wrong(f"'port' of {where} is not a port number")
        return value

    def _seconds(self, section: Mapping[str, Any], name: str, default: int, where: str) -> int:
        value = section.get(name, default)
        if type(value) is not int or not 1 <= value <= 3600:
            raise self._wrong(f"{name!r} of {where} is not a whole number of seconds from 1 to 3600")
        return value

    def _flag(self, section: Mapping[str, Any], name: str, where: str) -> bool:
        """True or false as TOML writes them: the text "false" must not switch anything on."""
        value = section.get(name, False)
        if type(value) is not bool:
            raise self._wrong(f"{name!r} of {where} is neither true nor false")
        return value

    def _wrong(self, what: str) -> ConfigurationError:
        return ConfigurationError("configuration_file", happened=f"{self._origin}: {what}.")
