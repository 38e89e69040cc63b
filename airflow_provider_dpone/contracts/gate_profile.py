"""The receipt of a component profile: which cases ran on which server, of which source, and what that unlocks.

An activation puts logins and a LOGON trigger to work on a server. Whether that server really closes a writer is known
only from running the gate profile on one of its version, so an activation needs a recorded green receipt for exactly
that version and this product's version. What a receipt unlocks is decided here and nowhere else, from what the server
says of itself: a receipt of an emulation, or of a source tree with uncommitted changes, unlocks nonproduction and can
never be made to say anything else.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from airflow_provider_dpone.contracts import canonical, rules
from airflow_provider_dpone.contracts.errors import AdmissionRefused

SCHEMA = "dpone.gate-profile-receipt.v1"
#: The largest receipt, in bytes. A green one has about two thousand.
DOCUMENT_LIMIT = 64 * 1024

AuthorityClass = Literal["production", "nonproduction"]
AUTHORITY_CLASSES: tuple[AuthorityClass, ...] = ("production", "nonproduction")

Outcome = Literal["passed", "failed", "error", "skipped"]
OUTCOMES: tuple[Outcome, ...] = ("passed", "failed", "error", "skipped")

#: How SQL Server's own @@VERSION begins. Nothing else unlocks production.
SQL_SERVER = "Microsoft SQL Server"

#: The cases that a profile requires, each once. dev/profiles/profiles.toml says which test each of them is.
PROFILE_CASES: Mapping[str, tuple[str, ...]] = {
    "store": (
        "installed-catalog-is-the-defined-one",
        "whole-life-advances-each-domain-by-one",
        "owned-domain-is-not-reserved",
        "steps-out-of-order-are-refused",
        "lost-reply-of-activation-is-read-back",
        "lost-commit-of-activation-did-not-happen",
        "lost-reply-of-retirement-is-read-back",
    ),
    "gate": (
        "whole-life-leaves-a-disabled-login",
        "twin-deliveries-make-one-effect",
        "closing-ends-open-transaction",
        "killed-worker-is-settled-by-next-try",
        "overtaken-worker-loses-its-transaction",
        "racing-reconnects-never-win",
        "uncreated-login-leaves-a-tombstone",
        "threefold-closing-leaves-one-proof-each",
        "impersonating-session-counts-as-present",
        "attempt-login-is-bounded-to-its-schema",
        "tagged-login-without-ready-gate-is-refused",
        "disabled-barrier-stops-issuing",
        "login-that-exists-before-issue-is-tampering",
        "observer-without-sight-proves-nothing",
        "lost-reply-of-issue-changes-nothing",
        "lost-commit-of-issue-is-settled-by-next-try",
    ),
    "trust": (
        "policy-and-trust-root-are-kept-byte-for-byte",
        "revisions-are-append-only-without-gaps",
        "decision-compares-the-exact-revision",
        "one-of-two-racing-provisioners-wins",
        "wrong-bytes-and-undone-revocations-are-refused",
        "changed-trust-catalog-refuses-every-reading",
        "no-trust-without-the-exclusive-lock",
        "lost-acknowledgement-of-trust-is-read-back",
        "provisioner-appends-and-nothing-else",
    ),
    "registration": (
        "registration-catalog-is-the-defined-one",
        "originals-and-largest-bundle-survive",
        "registered-rows-are-append-only",
        "execution-replays-exactly-and-is-never-rebound",
        "qualification-is-consumed-once",
        "membership-is-complete-within-the-ceiling",
        "one-damaged-original-refuses-the-campaign",
        "history-stays-readable",
        "preconditions-come-before-any-write",
        "concurrent-qualifications-consume-once",
        "concurrent-executions-keep-the-ceiling",
        "partial-write-leaves-nothing",
        "lost-reply-of-registration-is-read-back",
        "unreadable-commit-is-no-acknowledgement",
        "wrong-membership-is-refused",
        "changed-registration-catalog-blocks-registration",
        "registrar-cannot-go-around-the-storage",
        "other-session-options-write-nothing",
    ),
}

_CASE_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_VERSION = re.compile(r"[0-9]+(\.[0-9]+)*")
#: @@VERSION goes on with the servicing level in brackets, or with a dash and the build.
_AFTER_NAME = re.compile(r" \(| - ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A server by its own words: SERVERPROPERTY('ProductVersion'), and @@VERSION with its white space as single blanks."""

    product_version: str
    version_text: str

    def __post_init__(self) -> None:
        if not _VERSION.fullmatch(rules.identity_text(self.product_version, "engine_product_version", limit=128)):
            rules.refuse("engine_product_version")
        rules.trimmed_text(self.version_text, "engine_version_text")
        rules.trimmed_text(self.name, "engine_name", limit=128)

    @property
    def name(self) -> str:
        """What the server calls itself: @@VERSION up to its servicing level or its build."""
        return _AFTER_NAME.split(self.version_text, maxsplit=1)[0]

    @property
    def is_sql_server(self) -> bool:
        return self.name == SQL_SERVER or self.name.startswith(f"{SQL_SERVER} ")

    def __str__(self) -> str:
        return f"{self.name} {self.product_version}"


@rules.shaped("engine_version_text")
def engine_of(version_text: str, product_version: str) -> Engine:
    """The engine of @@VERSION and ProductVersion as a server sends them, with line breaks and tabs."""
    return Engine(product_version=product_version, version_text=" ".join(version_text.split()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The source that was run. Without a commit (an archive) nobody can say that it was clean."""

    commit: str | None
    clean: bool

    def __post_init__(self) -> None:
        if self.commit is not None and (type(self.commit) is not str or not _COMMIT.fullmatch(self.commit)):
            rules.refuse("source_commit")
        if type(self.clean) is not bool or (self.clean and self.commit is None):
            rules.refuse("source_clean")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Case:
    name: str
    outcome: Outcome

    def __post_init__(self) -> None:
        if type(self.name) is not str or not _CASE_NAME.fullmatch(self.name):
            rules.refuse("case_name")
        rules.one_of(self.outcome, OUTCOMES, "case_outcome")


@dataclass(frozen=True, slots=True, kw_only=True)
class GateReceipt:
    """One run of the gate profile. ``result`` is PASS or FAIL as its runner said; cases are in order of their names.

    A receipt that says PASS has cases, each once and passed, or it cannot be built at all. Whether they are those that
    are required is asked when it shall unlock something: a ledger keeps the receipts of versions that required others.
    """

    result: Literal["PASS", "FAIL"]
    engine: Engine
    product_version: str
    source: Source
    cases: tuple[Case, ...]
    profile: Literal["gate"] = "gate"

    def __post_init__(self) -> None:
        rules.one_of(self.profile, ("gate",), "gate_profile")
        rules.one_of(self.result, ("PASS", "FAIL"), "gate_profile_result")
        if type(self.engine) is not Engine or type(self.source) is not Source:
            rules.refuse("gate_profile_fields")
        rules.trimmed_text(self.product_version, "product_version", limit=64)
        rules.records(self.cases, Case, "gate_profile_cases", at_most=256, empty=True)
        if list(self.cases) != sorted(self.cases):
            rules.refuse("gate_profile_cases")
        names = {case.name for case in self.cases if case.outcome == "passed"}
        if self.green and (not names or len(names) != len(self.cases)):
            rules.refuse("gate_profile_result")

    @property
    def green(self) -> bool:
        return self.result == "PASS"

    @property
    def sha256(self) -> str:
        return canonical.exact_sha256(self.members())

    def members(self) -> dict[str, object]:
        return {
            "schema": SCHEMA,
            "profile": self.profile,
            "result": self.result,
            "engine": {
                "name": self.engine.name,
                "product_version": self.engine.product_version,
                "version_text": self.engine.version_text,
            },
            "product_version": self.product_version,
            "source": {"commit": self.source.commit, "clean": self.source.clean},
            "cases": [{"name": case.name, "outcome": case.outcome} for case in self.cases],
        }

    def document(self) -> bytes:
        """The bytes that the ledger stores."""
        return canonical.exact_bytes(self.members())


@rules.shaped("gate_profile_cases")
def case_problems(profile: str, cases: Sequence[Case]) -> list[str]:
    """Everything that keeps these cases from being exactly the required ones, once each and passed."""
    required, seen = PROFILE_CASES[profile], Counter(case.name for case in cases)
    found = [f"missing: {name}" for name in required if name not in seen]
    found += [f"foreign: {name}" for name in seen if name not in required]
    found += [f"repeated: {name}" for name, count in seen.items() if count > 1]
    return found + [f"{case.outcome}: {case.name}" for case in cases if case.outcome != "passed"]


def receipt_from(value: object) -> GateReceipt:
    """Rebuild the typed record from decoded members."""
    names = ("schema", "profile", "result", "engine", "product_version", "source", "cases")
    fields = rules.members(value, names, "gate_profile_fields")
    if fields.pop("schema") != SCHEMA:
        rules.refuse("gate_profile_schema")
    described = rules.members(fields.pop("engine"), ("name", "product_version", "version_text"), "gate_profile_fields")
    name = described.pop("name")
    source = rules.members(fields.pop("source"), ("commit", "clean"), "gate_profile_fields")
    cases = (
        rules.members(case, ("name", "outcome"), "gate_profile_fields")
        for case in rules.array(fields.pop("cases"), "gate_profile_cases")
    )
    engine = Engine(**described)
    if engine.name != name:
        rules.refuse("engine_name")
    return GateReceipt(engine=engine, source=Source(**source), cases=tuple(Case(**case) for case in cases), **fields)


def decode_receipt(document: object, sha256: object) -> GateReceipt:
    """Read a stored receipt back: same digest *and* same bytes, or ``gate_profile_readback``."""
    expected = rules.digest(sha256)
    if type(document) is not bytes:
        rules.refuse("gate_profile_readback")
    try:
        receipt = receipt_from(canonical.strict_object(document, limit=DOCUMENT_LIMIT))
    except (canonical.StrictJsonError, AdmissionRefused) as err:
        raise AdmissionRefused("gate_profile_readback") from err
    if receipt.sha256 != expected or receipt.document() != document:
        rules.refuse("gate_profile_readback")
    return receipt


def may_be_production(server: Engine) -> bool:
    """Whether a ledger with production authority may stand on this server."""
    return rules.record(server, Engine, "engine").is_sql_server


def obstacles(
    receipt: GateReceipt, *, server: Engine, product_version: str, authority: AuthorityClass
) -> tuple[str, ...]:
    """Why this receipt does not unlock an authority of this class on this server; empty if it does. The one rule."""
    rules.record(receipt, GateReceipt, "gate_profile_fields")
    rules.record(server, Engine, "engine")
    rules.one_of(authority, AUTHORITY_CLASSES, "authority_class")
    found = []
    if not receipt.green:
        found.append("its result is FAIL")
    elif wrong := case_problems("gate", receipt.cases):
        found.append(f"its cases are not those that this version requires ({'; '.join(wrong[:3])})")
    if (receipt.engine.name, receipt.engine.product_version) != (server.name, server.product_version):
        found.append(f"it is of {receipt.engine}, and the server is {server}")
    if receipt.product_version != product_version:
        found.append(f"it is of this provider's version {receipt.product_version}, and this is {product_version}")
    if authority == "production":
        if not (receipt.engine.is_sql_server and may_be_production(server)):
            found.append(f"{server.name} is not {SQL_SERVER}: it unlocks nonproduction only")
        if not receipt.source.clean:
            found.append("its source tree had uncommitted changes: it unlocks nonproduction only")
    return tuple(found)


def unlocks(receipt: GateReceipt, *, server: Engine, product_version: str) -> AuthorityClass | None:
    """The highest class that this receipt unlocks on this server, or None."""
    for authority in AUTHORITY_CLASSES:
        if not obstacles(receipt, server=server, product_version=product_version, authority=authority):
            return authority
    return None
