"""Parts of three campaigns, on one ground: the fault matrix, lost replies, and connections that race a closing.

Of the matrix here is each step of an attempt, and every fault at every moment; `docs/fault-matrix.md` is what the whole
of it (`dev/campaigns/fault_matrix.py`) wrote. The other two are `dev/campaigns/replies_and_races.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import pytest

from airflow_provider_dpone.drivers.trigger_points import MOMENTS, STEPS
from tests.faults import cells, lost_replies, matrix, racing_close
from tests.faults.cells import CELLS, FAULTS, Cell
from tests.faults.ground import ENGINES, Engine, Ground
from tests.faults.lost_replies import Message


def test_the_part_has_every_step_and_every_fault_at_every_moment() -> None:
    chosen = cells.fast()
    assert {cell.step for cell in chosen} == set(STEPS)
    assert {(cell.moment, cell.fault) for cell in chosen} == {(m, f) for m in MOMENTS for f in FAULTS}
    assert len(CELLS) == len(STEPS) * 3 * 6 == len(set(CELLS))


@pytest.mark.parametrize("cell", cells.fast(), ids=str)
def test_a_fault_ends_as_it_was_declared_and_as_is_true(ground: Ground, cell: Cell) -> None:
    seen = matrix.run(ground, cell)
    assert seen.wrong == (), seen


@dataclass(frozen=True, order=True)
class Misjudged(Cell):
    """Declares the other end."""

    @property
    def allowed(self) -> str:
        return "FAILED" if super().allowed == "SUCCEEDED" else "SUCCEEDED"


def test_an_end_that_was_not_declared_is_wrong(ground: Ground) -> None:
    seen = matrix.run(ground, Misjudged("target_commit", "acknowledged", "exception"))
    assert seen.wrong == ("SUCCEEDED, and FAILED was declared",)


def test_a_target_a_login_or_a_file_that_is_not_as_the_verdict_says_is_wrong(ground: Ground) -> None:
    """The positive controls of every comparison."""
    where = ground.coordinates()

    def spoil() -> None:
        operation = ground.operation(where)
        assert operation is not None
        login = operation.principal("ingest").name
        ground.in_target("UPDATE [raw].[planes] SET [word] = N'other';")
        ground.live.as_dba(f"ALTER LOGIN [{login}] ENABLE;")
        ground.postgres.as_owner(f'ALTER ROLE "{operation.principal("extract").name}" LOGIN')
        (ground.folder / "root" / "activations" / "other").write_text("")

    seen = matrix.run(ground, Cell("target_commit", "applied", "kill"), where=where, before_comparing=spoil)
    (ground.folder / "root" / "activations" / "other").unlink()
    assert seen.end == "SUCCEEDED"
    told = " ".join(seen.wrong)
    for part in ("the target holds neither", "the target was not replaced", "login dpone_a_", "role dpone_", "files"):
        assert part in told, part


@pytest.mark.parametrize("message", ["COMMIT", "COMMIT", "EXCHANGE"])
def test_a_reply_that_is_cut_off_anywhere_makes_no_wrong_verdict(
    ground: Ground, message: Message, request: pytest.FixtureRequest
) -> None:
    verdict = lost_replies.lose(ground, message, Random(request.node.name))
    assert verdict.wrong == "", verdict


@pytest.mark.parametrize("engine", ENGINES)
def test_of_connections_that_race_the_closing_none_is_left_after_its_proof(ground: Ground, engine: Engine) -> None:
    raced = racing_close.race(ground, engine, 60)
    assert raced.wrong == (), raced
