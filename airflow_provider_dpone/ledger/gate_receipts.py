"""The door of an activation: recorded receipts of the gate profile, and whether one unlocks this ledger's authority.

The installer records receipts; the controller reads them in the very transactions that reserve domains and open
admission, so nothing can slip between the look and the step, and nobody who has the store can go around it. What a
receipt unlocks is the rule of ``contracts.gate_profile``; the server's own words are read in the same batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from airflow_provider_dpone import __version__
from airflow_provider_dpone.contracts.errors import AdmissionRefused, ConfigurationError, LedgerTampered
from airflow_provider_dpone.contracts.gate_profile import (
    AuthorityClass,
    Engine,
    GateReceipt,
    decode_receipt,
    engine_of,
    obstacles,
    unlocks,
)
from airflow_provider_dpone.contracts.rules import record
from airflow_provider_dpone.drivers import Connect
from airflow_provider_dpone.ledger.questions import Question
from airflow_provider_dpone.ledger.settings import LedgerSettings
from airflow_provider_dpone.ledger.transaction import ControlLedger, ControlTransaction, Part

Rows = Sequence[tuple[Any, ...]]

#: Two result sets for `standing_of`. A part of any batch.
STANDING: Part = ("gate_receipts", [])

#: How many receipts a refusal names.
_NAMED_RECEIPTS = 3

RUN_PROFILE = "`dponectl component-check --profile gate --output-dir FOLDER` in a checkout"
RECORD_PROFILE = "`dponectl ledger record-profile FOLDER`"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateStanding:
    """What class of authority the ledger has, on which server it is now, and every recorded receipt, oldest first."""

    authority: AuthorityClass
    server: Engine
    receipts: tuple[GateReceipt, ...]

    def obstacles(self, receipt: GateReceipt) -> tuple[str, ...]:
        """Why a receipt does not unlock this ledger's authority here; empty if it does."""
        return obstacles(receipt, server=self.server, product_version=__version__, authority=self.authority)

    def unlocked_class(self, receipt: GateReceipt) -> AuthorityClass | None:
        """The highest class that a receipt unlocks on this server, whatever this ledger's is."""
        return unlocks(receipt, server=self.server, product_version=__version__)

    @property
    def unlocked_by(self) -> GateReceipt | None:
        """The newest receipt that unlocks this ledger's authority on this server."""
        return next((receipt for receipt in reversed(self.receipts) if not self.obstacles(receipt)), None)

    def require_unlocked(self) -> None:
        """Refuse, before anything is reserved or opened, unless a recorded receipt unlocks this ledger's authority."""
        if self.unlocked_by is not None:
            return
        newest = self.receipts[-_NAMED_RECEIPTS:]
        known = "; ".join(f"{each.sha256}: {', '.join(self.obstacles(each))}" for each in newest)
        raise AdmissionRefused(
            "gate_profile_absent",
            happened=f"this ledger has {self.authority} authority on {self.server}, provider {__version__}, and no "
            f"recorded gate profile unlocks that ({known or 'none is recorded'}).",
            not_done="no domain was reserved and no admission was opened.",
            check=f"run the gate profile on a disposable server of this version, {RUN_PROFILE}, then {RECORD_PROFILE}.",
            avoid="edit a receipt, or record the one of another server.",
        )


class GateReceiptStore:
    """Recording receipts, as the installer, and looking at them."""

    def __init__(self, connect: Connect, settings: LedgerSettings) -> None:
        self._ledger = ControlLedger(connect, settings, role="installer")

    def record(self, receipt: GateReceipt) -> GateStanding:
        """Record a receipt that unlocks this ledger's authority on this server; any other is refused. Repeatable."""
        record(receipt, GateReceipt, "gate_profile_fields")

        def work(transaction: ControlTransaction) -> GateStanding | None:
            standing = THE_STANDING(transaction)
            if found := standing.obstacles(receipt):
                raise ConfigurationError(
                    "gate_profile_refused",
                    happened=f"the receipt {receipt.sha256} does not unlock the {standing.authority} authority of this "
                    f"ledger: {'; '.join(found)}.",
                    not_done="it was not recorded.",
                    check=f"on which server the profile ran; run it on a disposable one of this version, {RUN_PROFILE}.",
                    avoid="edit a receipt.",
                )
            if receipt in standing.receipts:
                return standing
            engine = receipt.engine
            values = [receipt.sha256, engine.name, engine.product_version, receipt.product_version, receipt.document()]
            transaction.write(("insert_receipt", values))
            return None

        readback = THE_STANDING.then(lambda standing: standing if receipt in standing.receipts else None)
        return self._ledger.mutate("record_profile", work, readback)

    def standing(self) -> GateStanding:
        """The authority of the ledger and its receipts, every byte verified."""
        return self._ledger.read(THE_STANDING)


def standing_of(results: Sequence[Rows]) -> GateStanding:
    """From the two result sets of ``STANDING``."""
    ledger, receipts = results
    if len(ledger) != 1:
        raise LedgerTampered("incarnation", happened=f"the incarnation has {len(ledger)} rows instead of one.")
    authority, version_text, product_version = ledger[0]
    return GateStanding(
        authority=cast("AuthorityClass", authority),
        server=server_of(version_text, product_version),
        receipts=tuple(_receipt(row) for row in receipts),
    )


#: The authority of the ledger and its receipts, every byte verified.
THE_STANDING = Question((STANDING,), standing_of)


def server_of(version_text: object, product_version: object) -> Engine:
    """The server from its @@VERSION and ProductVersion, or a refusal: what does not say what it is unlocks nothing."""
    try:
        return engine_of(str(version_text), str(product_version))
    except AdmissionRefused as err:
        raise ConfigurationError(
            "server_version",
            happened=f"the server does not say what it is in a known form ({err.reason}).",
            check="SELECT @@VERSION, SERVERPROPERTY('ProductVersion') on this connection.",
        ) from err


def _receipt(row: tuple[Any, ...]) -> GateReceipt:
    sha256, *columns, document = row
    try:
        receipt = decode_receipt(document, sha256)
    except AdmissionRefused as err:
        raise LedgerTampered("gate_receipt", happened=f"the receipt {sha256} cannot be read back.") from err
    if columns != [receipt.engine.name, receipt.engine.product_version, receipt.product_version]:
        raise LedgerTampered("gate_receipt", happened=f"the row of receipt {sha256} is not that of its document.")
    return receipt
