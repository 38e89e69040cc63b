"""The list of trigger points is the list of those that the product reaches, and nothing happens there by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import airflow_provider_dpone
from airflow_provider_dpone.drivers import trigger_points
from airflow_provider_dpone.drivers.trigger_points import COMPOSITION_STEPS, MOMENTS, STEPS, armed, reach

PRODUCT = Path(airflow_provider_dpone.__path__[0])


def calls(name: str) -> Iterator[ast.Call]:
    for path in PRODUCT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                function = node.func
                called = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
                if called == name:
                    yield node


def literal(node: ast.expr) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else ""


def test_every_step_of_the_list_is_reached_at_its_three_moments_and_no_other_is() -> None:
    written = [(literal(call.args[0]), literal(call.args[1])) for call in calls("reach")]
    assert all(moment in MOMENTS for _, moment in written)
    assert {step for step, _ in written if step} <= {*STEPS, *COMPOSITION_STEPS}
    steps = {step for step, _ in written if step in STEPS}
    assert {(step, moment) for step in steps for moment in MOMENTS} <= set(written)
    # The ledger's one commit is a point for each of its mutations; the rest of the list are names of those.
    assert sorted(moment for step, moment in written if not step) == sorted(MOMENTS)
    mutations = {literal(call.args[0]) for call in calls("mutate")}
    assert set(STEPS) - steps <= mutations


def test_a_point_is_reached_in_one_place() -> None:
    written = [(literal(call.args[0]), literal(call.args[1])) for call in calls("reach")]
    assert len(written) == len(set(written))


def test_no_product_code_arms_a_point() -> None:
    assert not list(calls("armed"))


def test_nothing_happens_at_a_point_that_nobody_armed() -> None:
    assert reach("finalize", "before") is None
    assert trigger_points._hook is None


def test_points_are_armed_for_a_block_and_blocks_can_nest() -> None:
    seen: list[tuple[str, str, str]] = []
    with armed(lambda step, moment: seen.append(("outer", step, moment))):
        with pytest.raises(KeyError), armed(lambda step, moment: {}[step]):
            reach("exchange", "before")
        reach("exchange", "applied")
    reach("exchange", "acknowledged")
    assert seen == [("outer", "exchange", "applied")]
