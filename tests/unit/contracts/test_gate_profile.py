"""The receipt of a gate profile, and the one rule of what it unlocks on which server."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_dpone import __version__
from airflow_provider_dpone.contracts import canonical
from airflow_provider_dpone.contracts.errors import AdmissionRefused
from airflow_provider_dpone.contracts.gate_profile import (
    PROFILE_CASES,
    Case,
    Engine,
    GateReceipt,
    Source,
    case_problems,
    decode_receipt,
    engine_of,
    may_be_production,
    obstacles,
    unlocks,
)
from tests.support.gate_receipts import passed, receipt

#: What Microsoft's servers answer, from the documentation of @@VERSION.
SQL_2022 = (
    "Microsoft SQL Server 2022 (RTM-CU14) (KB5038325) - 16.0.4135.4 (X64) \n\tJul 10 2024 14:09:09 \n\tCopyright (C) 2022 "
    "Microsoft Corporation\n\tDeveloper Edition (64-bit) on Linux (Ubuntu 22.04.4 LTS) <X64>"
)
SERVER = engine_of(SQL_2022, "16.0.4135.4")
EMULATION = engine_of("tsqldev emulation of Microsoft SQL Server 2022 on PostgreSQL - 16.0.4135.0", "16.0.4135.0")


def unlocked(of: GateReceipt, server: Engine, product_version: str = __version__) -> str | None:
    return unlocks(of, server=server, product_version=product_version)


def test_an_engine_is_named_by_its_own_words() -> None:
    assert (SERVER.name, str(SERVER)) == ("Microsoft SQL Server 2022", "Microsoft SQL Server 2022 16.0.4135.4")
    assert "\n" not in SERVER.version_text and "  " not in SERVER.version_text
    assert SERVER.is_sql_server and may_be_production(SERVER)
    assert not EMULATION.is_sql_server and not may_be_production(EMULATION)


@pytest.mark.parametrize(
    "text",
    [
        "Microsoft SQL Azure (RTM) - 12.0.2000.8",
        "Microsoft SQL Serverless 2022 (RTM)",
        "An emulation of Microsoft SQL Server 2022 (RTM)",
        "microsoft sql server 2022 (RTM)",
        "PostgreSQL 18.6",
    ],
)
def test_what_only_resembles_sql_server_is_not(text: str) -> None:
    assert not engine_of(text, "16.0.1.1").is_sql_server


def test_a_green_receipt_of_a_clean_source_on_sql_server_unlocks_production() -> None:
    assert unlocked(receipt(SERVER, clean=True), SERVER) == "production"
    for authority in ("production", "nonproduction"):
        assert (
            obstacles(receipt(SERVER, clean=True), server=SERVER, product_version=__version__, authority=authority)
            == ()
        )


@pytest.mark.parametrize(
    ("given", "server", "expected"),
    [
        (receipt(SERVER), SERVER, "nonproduction"),
        (receipt(SERVER, commit=None), SERVER, "nonproduction"),
        (receipt(EMULATION, clean=True), EMULATION, "nonproduction"),
        (receipt(SERVER, clean=True), replace(SERVER, product_version="16.0.4140.3"), None),
        (receipt(SERVER, clean=True), engine_of("Microsoft SQL Server 2019 (RTM)", "16.0.4135.4"), None),
        (receipt(EMULATION, clean=True), SERVER, None),
        (receipt(SERVER, clean=True), EMULATION, None),
        (receipt(SERVER, clean=True, product_version="0.0.9"), SERVER, None),
        (replace(receipt(SERVER, clean=True), result="FAIL"), SERVER, None),
    ],
)
def test_anything_less_unlocks_less(given: GateReceipt, server: Engine, expected: str | None) -> None:
    assert unlocked(given, server) == expected
    assert obstacles(given, server=server, product_version=__version__, authority="production")


def test_another_edition_or_build_date_of_the_same_version_is_the_same_server() -> None:
    other = engine_of(SQL_2022.replace("Developer", "Enterprise"), "16.0.4135.4")
    assert unlocked(receipt(SERVER, clean=True), other) == "production"


@pytest.mark.parametrize("profile", PROFILE_CASES)
def test_each_profile_has_its_number_of_cases_and_no_name_stands_twice(profile: str) -> None:
    """The numbers are those of the design; the gate's are what a receipt must hold."""
    number = {"store": 7, "gate": 16, "trust": 9, "registration": 18}[profile]
    assert len(PROFILE_CASES[profile]) == len(set(PROFILE_CASES[profile])) == number


FIRST = PROFILE_CASES["gate"][0]


@pytest.mark.parametrize(
    ("cases", "said"),
    [
        (passed()[1:], "missing: "),
        (tuple(sorted((*passed(), Case(name="another-case", outcome="passed")))), "foreign: another-case"),
        (tuple(sorted((*passed(), Case(name=FIRST, outcome="passed")))), f"repeated: {FIRST}"),
        *(
            (tuple(Case(name=c.name, outcome=o if c.name == FIRST else c.outcome) for c in passed()), f"{o}: {FIRST}")
            for o in ("failed", "skipped", "error")
        ),
        ((), "missing: "),
    ],
)
def test_without_exactly_the_required_cases_nothing_is_unlocked(cases: tuple[Case, ...], said: str) -> None:
    assert any(problem.startswith(said) for problem in case_problems("gate", cases))
    failed = replace(receipt(SERVER, clean=True), cases=cases, result="FAIL")
    assert not failed.green and unlocked(failed, SERVER) is None
    if cases and len({case.name for case in cases if case.outcome == "passed"}) == len(cases):
        other = replace(receipt(SERVER, clean=True), cases=cases)
        why = obstacles(other, server=SERVER, product_version=__version__, authority="nonproduction")
        assert len(why) == 1 and said in why[0]
        assert unlocked(other, SERVER) is None
    else:
        with pytest.raises(AdmissionRefused, match="gate_profile_result"):
            replace(receipt(SERVER), cases=cases)


def test_the_receipt_of_a_version_with_other_cases_reads_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was recorded stays readable after an upgrade: a ledger that cannot read it could never be opened again."""
    before = receipt(SERVER, clean=True)
    monkeypatch.setitem(PROFILE_CASES, "gate", (*PROFILE_CASES["gate"][1:], "a-case-of-tomorrow"))
    assert decode_receipt(before.document(), before.sha256) == before
    assert unlocked(before, SERVER) is None


def test_a_receipt_reads_back_exactly() -> None:
    for each in (receipt(SERVER, clean=True), receipt(EMULATION), receipt(EMULATION, commit=None)):
        assert decode_receipt(each.document(), each.sha256) == each
        assert canonical.sha256_text(each.document()) == each.sha256


def change(members: Any, path: str, value: object) -> None:
    *parents, last = path.split(".")
    for name in parents:
        members = members[int(name) if name.isdigit() else name]
    members[int(last) if last.isdigit() else last] = value


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("result", "FAIL"),
        ("result", "GREEN"),
        ("profile", "store"),
        ("schema", "dpone.gate-profile-receipt.v2"),
        ("engine.name", "Microsoft SQL Server 2022"),
        ("engine.version_text", SERVER.version_text),
        ("engine.product_version", "16.0"),
        ("engine.product_version", "16.x"),
        ("engine.edition", "Developer"),
        ("product_version", "9.9"),
        ("product_version", 1),
        ("source.clean", True),
        ("source.clean", "true"),
        ("source.commit", "HEAD"),
        ("source", {"clean": False}),
        ("cases", {}),
        ("cases.0", {"name": FIRST}),
        ("cases.0.outcome", "xpassed"),
        ("cases.0.name", "Another Case"),
        ("note", "x"),
    ],
)
def test_a_changed_document_is_refused_even_with_a_digest_of_its_own(path: str, value: object) -> None:
    original = receipt(EMULATION)
    members = json.loads(original.document())
    change(members, path, value)
    data = canonical.exact_bytes(members)
    with pytest.raises(AdmissionRefused):
        decode_receipt(data, original.sha256)
    try:
        relabelled = decode_receipt(data, canonical.sha256_text(data))
    except AdmissionRefused:
        return
    assert relabelled != original and unlocked(relabelled, SERVER) is None


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", "text", None, b'{"schema":1,"schema":1}'])
def test_what_is_no_receipt_is_refused(data: object) -> None:
    with pytest.raises(AdmissionRefused):
        decode_receipt(data, receipt(EMULATION).sha256)


def test_the_bytes_are_the_exact_encoding() -> None:
    original = receipt(EMULATION)
    spaced = json.dumps(json.loads(original.document()), sort_keys=True).encode()
    for digest in (original.sha256, canonical.sha256_text(spaced)):
        with pytest.raises(AdmissionRefused, match="gate_profile_readback"):
            decode_receipt(spaced, digest)


def test_cases_stand_in_order_and_a_source_without_a_commit_is_not_clean() -> None:
    with pytest.raises(AdmissionRefused, match="gate_profile_cases"):
        replace(receipt(SERVER), cases=passed()[::-1])
    with pytest.raises(AdmissionRefused, match="source_clean"):
        Source(commit=None, clean=True)
    for wrong in ("", "not a version", "16.", ".16", "16.0 "):
        with pytest.raises(AdmissionRefused):
            engine_of(SQL_2022, wrong)
    for wrong in ("", " ", "x" * 600):
        with pytest.raises(AdmissionRefused):
            engine_of(wrong, "16.0")


def test_a_product_version_fits_the_column_that_it_is_stored_in() -> None:
    assert replace(SERVER, product_version="1" * 128).product_version
    for version in ("1" * 129, 16, "16.", "16.0\n"):
        with pytest.raises(AdmissionRefused, match="engine_product_version"):
            replace(SERVER, product_version=version)  # type: ignore[arg-type]  # 16 is no text
