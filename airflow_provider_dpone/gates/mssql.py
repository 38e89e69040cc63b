"""The SQL Server login gate: one login an attempt, created once, closed for good, proven gone.

Two accounts work here, and neither can do the other's part (docs/roles.md). The issuer creates the login and hands the
target's fence to the attempt; the closer disables it, ends its sessions and records what it saw.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.contracts.principal import Connector, Principal, Purpose, new_mssql_principal
from airflow_provider_dpone.drivers import Connect
from airflow_provider_dpone.gates.interface import Credential, Grant
from airflow_provider_dpone.gates.mssql_closer import LoginCloser
from airflow_provider_dpone.gates.mssql_issuer import LoginIssuer
from airflow_provider_dpone.ledger import LedgerSettings


class MsSqlLoginGate:
    """The gate of the instance that the ledger lives on.

    ``issuer`` and ``closer`` give connections of those accounts in the control database; ``issuer`` is None where
    nothing is ever issued, as for an operator who only settles. ``controller`` is the login that owns the targets.
    """

    def __init__(self, *, issuer: Connect | None, closer: Connect, controller: str, settings: LedgerSettings) -> None:
        self._issuer = None if issuer is None else LoginIssuer(issuer, controller=controller, settings=settings)
        self._closer = LoginCloser(closer, settings=settings)
        self._settings = settings

    @property
    def connector(self) -> Connector:
        return "mssql"

    @property
    def service_id(self) -> str:
        return self._settings.service_id

    def new_principal(self, purpose: Purpose) -> Principal:
        return new_mssql_principal(self._settings.service_id, purpose)

    def require_issuer(self) -> LoginIssuer:
        """The issuer, refused by name when no account was configured for it."""
        if self._issuer is None:
            raise ConfigurationError(
                "issuer_role",
                happened="no account of the role issuer is configured, so no SQL Server login can be created.",
                not_done="nothing was admitted or created by this call.",
                check="the role issuer in docs/roles.md, and its connection or [mssql.roles.issuer].",
            )
        return self._issuer

    def issue(self, operation: Operation, principal: Principal, grant: Grant) -> Credential:
        return self.require_issuer().issue(operation, principal, grant)

    def close(self, operation: Operation, principal: Principal) -> Mapping[str, object]:
        return self._closer.close(operation, principal)

    def prove_quiescent(self, operation: Operation, principal: Principal) -> Mapping[str, object]:
        return self._closer.prove_quiescent(operation, principal)
