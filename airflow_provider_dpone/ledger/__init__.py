"""The control ledger: who owns which physical domain, which attempts were admitted, and how each of them ended.

It lives in a SQL Server database of its own. All its SQL stands in ``ledger/sql``; every change is one transaction
under one lock, committed once and read back. Stores take a function that gives a fresh control connection each time.
"""

from airflow_provider_dpone.ledger.attempts import AttemptStore
from airflow_provider_dpone.ledger.campaigns import Registration
from airflow_provider_dpone.ledger.charges import ChargeStore
from airflow_provider_dpone.ledger.gate_receipts import GateReceiptStore, GateStanding
from airflow_provider_dpone.ledger.gates import LoginGateStore
from airflow_provider_dpone.ledger.owners import ActivationStore
from airflow_provider_dpone.ledger.records import Activation, Blocker, Charge, Evidence
from airflow_provider_dpone.ledger.registration import RegistrationStore
from airflow_provider_dpone.ledger.settings import LedgerSettings
from airflow_provider_dpone.ledger.snapshots import SnapshotStore
from airflow_provider_dpone.ledger.trust import TrustRevision, TrustStore

__all__ = [
    "Activation",
    "ActivationStore",
    "AttemptStore",
    "Blocker",
    "Charge",
    "ChargeStore",
    "Evidence",
    "GateReceiptStore",
    "GateStanding",
    "LedgerSettings",
    "LoginGateStore",
    "Registration",
    "RegistrationStore",
    "SnapshotStore",
    "TrustRevision",
    "TrustStore",
]
