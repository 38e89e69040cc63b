"""What opened activation: the receipts of the gate profile that the ledger holds, judged here by their own words."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from dpone_reconcile.check import Check
from dpone_reconcile.engines import SqlServer

#: The gate profile has sixteen cases.
CASES = 16
_AUTHORITY = "SELECT authority_class FROM dpone_ext.incarnation"
_SERVER = "SELECT CONVERT(nvarchar(400), @@VERSION), CONVERT(nvarchar(128), SERVERPROPERTY('ProductVersion'))"
_RECEIPTS = "SELECT receipt_sha256, receipt_document FROM dpone_ext.gate_receipts"


def door(control: SqlServer) -> Check:
    """A green receipt of this server's version, of the class that the ledger has."""
    [(authority,)] = control.rows(_AUTHORITY)
    [(version_text, product_version)] = control.rows(_SERVER)
    name = "ledger: a green gate profile of this server opened activation"
    reasons = []
    for sha256, raw in control.rows(_RECEIPTS):
        document = bytes(raw)
        problem = _problem(json.loads(document), str(authority), str(version_text), str(product_version))
        if "sha256:" + hashlib.sha256(document).hexdigest() != sha256:
            problem = "it has another digest"
        if problem is None:
            return Check(name, True, f"{authority} authority, {CASES} of {CASES} cases on {product_version}")
        reasons.append(f"{sha256}: {problem}")
    return Check(name, False, "; ".join(reasons) or "there is none")


def _problem(receipt: dict[str, Any], authority: str, version_text: str, product_version: str) -> str | None:
    engine, cases = receipt["engine"], receipt["cases"]
    passed = {case["name"] for case in cases if case["outcome"] == "passed"}
    if receipt["result"] != "PASS" or len(cases) != CASES or len(passed) != CASES:
        return f"{len(passed)} of {len(cases)} cases passed, and its result is {receipt['result']}"
    if engine["product_version"] != product_version or not version_text.startswith(engine["name"]):
        return f"it is of {engine['name']} {engine['product_version']}"
    genuine = version_text.startswith("Microsoft SQL Server ") and receipt["source"]["clean"]
    return "it unlocks nonproduction only" if authority == "production" and not genuine else None
