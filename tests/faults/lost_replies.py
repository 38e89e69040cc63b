"""The deciding message of an attempt is acknowledged by a reply that is cut off at some byte: what it ends as, and what is true."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

from tests.faults.ground import Engine, Ground, Workload
from tests.support.tcp_proxy import Ending, Fate

Message = Literal["COMMIT", "EXCHANGE"]

_STEP: dict[Message, tuple[str, Workload, Engine]] = {
    "COMMIT": ("target_commit", "planes", "mssql"),
    "EXCHANGE": ("exchange", "flights", "clickhouse"),
}
_ENDINGS: tuple[Ending, ...] = ("reset", "close", "cut")
#: The replies are shorter: a few are cut off right after their last byte.
_LONGEST = {"COMMIT": 128, "EXCHANGE": 640}


@dataclass(frozen=True)
class Verdict:
    """What became of one attempt. `passing` bytes of the reply arrived, at most."""

    passing: int
    ending: Ending
    state: str
    effect: bool
    wrong: str


def lose(ground: Ground, message: Message, random: Random) -> Verdict:
    """One attempt whose reply is cut off at a random byte, ended as it ends, or by an operator's command."""
    step, workload, engine = _STEP[message]
    passing, ending = random.randrange(_LONGEST[message]), random.choice(_ENDINGS)
    where, word, wrong = ground.coordinates(), ground.new_word(workload), ""
    with ground.proxies() as (config, ways):
        point = {"step": step, "moment": "before", "fault": "reset", "number": 0}
        worker = ground.attempt(workload, where, config=config, point=point)
        if not worker.wait_for_point():
            wrong = f"never came to its {message}: {worker.end()}"
        else:
            ways[engine].arm(Fate(loss="reply", passing=passing, ending=ending))
            worker.go_on()
            worker.end()
            if not ways[engine].met:
                wrong = "no reply was lost"
    operation = ground.operation(where)
    if operation is not None and operation.state == "RUNNING":
        ground.settle(operation)
        operation = ground.operation(where)
    state = "nothing" if operation is None else operation.state
    effect = ground.rows(workload) == [(number, word) for number in (1, 2, 3)]
    if state != "SUCCEEDED" or not effect:
        # The message arrived whole, and the server had done it before it replied.
        wrong = wrong or f"{state}, and the target {'was' if effect else 'was not'} replaced"
    return Verdict(passing, ending, state, effect, wrong)
