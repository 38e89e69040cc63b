"""The control ledger through one Airflow connection of type ``dpone_mssql``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.hooks.mssql import DponeMsSqlHook

if TYPE_CHECKING:
    from airflow_provider_dpone.drivers.dbapi import Connect, Connection
    from airflow_provider_dpone.ledger import ActivationStore, AttemptStore, GateReceiptStore, LedgerSettings


class DponeLedgerHook(DponeMsSqlHook):
    """Reads and moves operations. What it may do is what its connection's login may do."""

    hook_name = "dpone: control ledger"

    @classmethod
    def configured(cls) -> DponeLedgerHook:
        """By the connection that the setting ``[dpone] ledger_conn_id`` names."""
        from airflow.sdk.configuration import conf

        return cls(conf.get("dpone", "ledger_conn_id", fallback=cls.default_conn_name))

    def settings(self) -> LedgerSettings:
        """The installation that this connection belongs to."""
        from airflow_provider_dpone.ledger import LedgerSettings

        service_id = self.extra("service_id")
        if service_id is None:
            raise ConfigurationError(
                "ledger_service_id",
                happened=f"the connection {self.conn_id!r} does not say which ledger it belongs to.",
                check="its field Service id: `dponectl ledger audit` prints the ledger's.",
            )
        return LedgerSettings(
            service_id=service_id,
            control_schema=self.extra("control_schema") or "dpone_control",
            extension_schema=self.extra("extension_schema") or "dpone_ext",
        )

    def attempts(self) -> AttemptStore:
        """Operations: admission, proofs, evidence, finalization."""
        from airflow_provider_dpone.ledger import AttemptStore

        return AttemptStore(self._connect(), self.settings())

    def activations(self) -> ActivationStore:
        """Activations of compositions."""
        from airflow_provider_dpone.ledger import ActivationStore

        return ActivationStore(self._connect(), self.settings())

    def receipts(self) -> GateReceiptStore:
        """What opens an activation's door: to look at, because only an installer may record one."""
        from airflow_provider_dpone.ledger import GateReceiptStore

        return GateReceiptStore(self._connect(), self.settings())

    def _connect(self) -> Connect:
        from airflow_provider_dpone.drivers import mssql

        dsn = self.dsn()

        def connect() -> Connection:
            return mssql.connect_autocommit(dsn)

        return connect
