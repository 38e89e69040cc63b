"""The seed plan and the source seal: what they accept, and what they refuse by name."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_dpone.contracts import canonical
from airflow_provider_dpone.contracts.errors import AdmissionRefused, AuthorityRefused
from airflow_provider_dpone.contracts.nonproduction.seal import decode_source_seal
from airflow_provider_dpone.contracts.nonproduction.seed import (
    COLUMNS_MAX,
    ROWS_MAX,
    SeedColumn,
    content_sha256,
    decode_seed_plan,
    value_rule,
)
from tests.support import ledger_records as make
from tests.support.seed_plans import PLAN, SEAL


def test_a_plan_is_read_back_byte_for_byte() -> None:
    assert decode_seed_plan(PLAN.document(), PLAN.sha256) == PLAN
    assert decode_source_seal(SEAL.document(), SEAL.sha256) == SEAL


#: name of the refusal -> a change of the record that it is for.
REFUSED: dict[str, Callable[[], object]] = {
    "seed_name": lambda: replace(PLAN, qualified_name=("db", "fixtures", "ß" * 32)),
    "seed_columns": lambda: replace(PLAN, columns=(PLAN.columns[0], PLAN.columns[0])),
    "seed_columns ": lambda: replace(PLAN, columns=PLAN.columns[:1] * (COLUMNS_MAX + 1)),
    "seed_key": lambda: replace(PLAN, key=("amount",)),
    "seed_key ": lambda: replace(PLAN, key=("id", "id")),
    "seed_rows": lambda: replace(PLAN, rows=(("1",),)),
    "seed_rows ": lambda: replace(PLAN, rows=(("1", None),) * (ROWS_MAX + 1)),
    "seed_value": lambda: replace(PLAN, rows=(("1", "1.5"),)),
    "seed_value ": lambda: replace(PLAN, rows=((None, "1.50"),)),
    "seed_value  ": lambda: replace(PLAN, rows=((1, "1.50"),)),  # type: ignore[arg-type]  # the refusal is the test
    "seed_type": lambda: SeedColumn(name="a", type="double precision", nullable=True),
    "seed_type ": lambda: SeedColumn(name="a", type="integer; DROP TABLE x", nullable=True),
    "seed_size": lambda: replace(
        PLAN, columns=(SeedColumn(name="t", type="text", nullable=True),), key=(), rows=(("x" * 2**20,),)
    ),
    "digest": lambda: replace(PLAN, work_item_sha256="sha256:0"),
    "seal_generation": lambda: replace(SEAL, seed_operation_sha256=make.sha("another")),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_a_record_refuses(reason: str) -> None:
    with pytest.raises(AuthorityRefused) as refused:
        REFUSED[reason]()
    assert refused.value.reason == reason.strip()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"row_count": 3}, "seed_content"),
        ({"row_count": True}, "seed_content"),
        ({"content_sha256": make.sha("other")}, "seed_content"),
        ({"rows": [["1", "1.50"]]}, "seed_content"),
        ({"more": 1}, "seed_plan"),
        ({"schema": "dpone.postgres-seed-plan.v2"}, "document"),
    ],
)
def test_a_document_that_was_changed_is_refused(change: dict[str, Any], reason: str) -> None:
    document = canonical.exact_bytes(dict(PLAN.members()) | change)
    with pytest.raises(AuthorityRefused, match=reason):
        decode_seed_plan(document, canonical.sha256_text(document))


def test_a_document_in_another_encoding_is_refused() -> None:
    spaced = PLAN.document().replace(b",", b", ", 1)
    with pytest.raises(AuthorityRefused, match="document"):
        decode_seed_plan(spaced, PLAN.sha256)


ACCEPTED = {
    "boolean": (["true", "false"], ["t", "TRUE", "1", ""]),
    "smallint": (["0", "-32768", "32767"], ["-0", "01", "+1", "32768", "1.0", " 1", "१"]),
    "bigint": (["-9223372036854775808"], ["9223372036854775808", "1" * 5000]),
    "numeric(5,2)": (["0.00", "-0.01", "999.99"], ["1000.00", "-0.00", "1", "1.5", "01.00", "1e2", "NaN", ".50"]),
    "numeric(2,2)": (["0.99", "-0.10"], ["1.00", "00.10"]),
    "numeric(3,0)": (["0", "-999"], ["1000", "1.", "-0"]),
    "text": (["", "\n\t'", "𝄞"], ["\x00", "\ud800"]),
    "character varying(3)": (["äöü", ""], ["abcd"]),
    "bytea": (["\\x", "\\x00ff"], ["\\x0", "\\xFF", "00"]),
    "uuid": (["0f8fad5b-d9cd-469f-a165-70867728950e"], ["0F8FAD5B-D9CD-469F-A165-70867728950E", "0f8fad5b"]),
    "date": (["0001-01-01", "2026-12-31"], ["0000-01-01", "2026-13-01", "infinity", "2026-1-1"]),
    "time without time zone": (["00:00:00", "23:59:59.5"], ["24:00:00", "12:00", "12:00:00.50", "12:00:00."]),
    "timestamp without time zone": (["2026-01-01 00:00:00"], ["2026-01-01T00:00:00", "2026-01-01"]),
    "timestamp with time zone": (["2026-01-01 00:00:00.000001+00"], ["2026-01-01 00:00:00", "2026-01-01 00:00:00+01"]),
}


@pytest.mark.parametrize("kind", ACCEPTED)
def test_a_value_is_the_text_that_the_server_gives_for_it(kind: str) -> None:
    accepted, refused = ACCEPTED[kind]
    fits = value_rule(kind)
    assert [value for value in accepted if not fits(value)] == []
    assert [value for value in refused if fits(value)] == []


@pytest.mark.parametrize("kind", ["numeric(39,0)", "numeric(2,3)", "numeric", "varchar(3)", "character varying(0)", 5])
def test_a_type_outside_of_the_list_is_refused(kind: object) -> None:
    with pytest.raises(AdmissionRefused, match="seed_type"):
        value_rule(kind)


def test_rows_that_differ_have_other_digests_and_their_order_does_not_matter() -> None:
    tables = [
        (),
        (("a", "b"),),
        (("ab", ""),),
        (("", "ab"),),
        (("a", None),),
        ((None, "a"),),
        (("N", "N"),),
        ((None, None),),
        (("a", "b"), ("a", "b")),
        (("V1:a", "b"),),
    ]
    digests = [content_sha256(rows) for rows in tables]
    assert len(set(digests)) == len(tables)
    rows = [("1", None), ("2", "x"), ("2", "x")]
    assert {content_sha256(order) for order in itertools.permutations(rows)} == {content_sha256(rows)}
