"""The witness judges for itself what opened activation."""

from __future__ import annotations

from dataclasses import replace

import pytest
from dpone_reconcile.door import door

from airflow_provider_dpone.contracts.gate_profile import GateReceipt, engine_of
from tests.support.gate_receipts import receipt

SQL_SERVER = "Microsoft SQL Server 2022 (RTM) - 16.0.4135.4"
HERE = engine_of(SQL_SERVER, "16.0.4135.4")
GREEN = receipt(HERE, clean=True)


class Control:
    """A double of the control database: three questions and their answers."""

    def __init__(self, authority: str, version_text: str, *receipts: tuple[str, bytes]) -> None:
        self._answers = [[(authority,)], [(version_text, "16.0.4135.4")], list(receipts)]

    def rows(self, _: str) -> list[tuple[object, ...]]:
        return list(self._answers.pop(0))


def judged(authority: str, *receipts: GateReceipt, version_text: str = SQL_SERVER) -> tuple[bool, str]:
    check = door(Control(authority, version_text, *((r.sha256, r.document()) for r in receipts)))  # type: ignore[arg-type]  # a double
    return check.passed, check.detail


def test_a_green_receipt_of_this_server_opens_it() -> None:
    assert judged("production", GREEN) == (True, "production authority, 16 of 16 cases on 16.0.4135.4")
    assert judged("nonproduction", receipt(HERE))[0]
    assert judged("production", receipt(HERE), GREEN)[0]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (replace(GREEN, result="FAIL", cases=GREEN.cases[1:]), "15 of 15"),
        (replace(GREEN, result="FAIL"), "FAIL"),
        (replace(GREEN, engine=engine_of(SQL_SERVER, "16.0.1")), "it is of Microsoft SQL Server 2022 16.0.1"),
        (replace(GREEN, engine=engine_of("Other 2022 (RTM)", "16.0.4135.4")), "it is of Other 2022"),
        (receipt(HERE), "nonproduction only"),
    ],
)
def test_anything_else_does_not(given: GateReceipt, said: str) -> None:
    passed, detail = judged("production", given)
    assert not passed
    assert said in detail


def test_no_receipt_and_a_changed_one_are_told() -> None:
    assert judged("nonproduction") == (False, "there is none")
    control = Control("nonproduction", SQL_SERVER, (GREEN.sha256, GREEN.document() + b" "))
    assert "another digest" in door(control).detail  # type: ignore[arg-type]  # a double
    emulation = "An emulation of SQL Server - 16.0.4135.4"
    assert (
        "nonproduction only"
        in judged("production", receipt(engine_of(emulation, "16.0.4135.4"), clean=True), version_text=emulation)[1]
    )
