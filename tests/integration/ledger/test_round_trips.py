"""A call costs the same number of batches whatever the ledger already holds."""

from __future__ import annotations

from airflow_provider_dpone.ledger import Activation
from tests.support import ledger_records as make
from tests.support.counting_connection import Counting
from tests.support.live_ledger import LiveLedger


def costs(ledger: LiveLedger) -> list[int]:
    """Batches of prepare, activate, admit_once, put_proof with evidence, and a whole end."""
    counting = Counting(ledger.connect)
    counted = ledger.through(counting)
    found: list[int] = []

    def note() -> None:
        found.append(len(counting.batches))
        counting.batches.clear()

    request = make.request(ledger.enroll(2))
    counted.activations.prepare(request)
    note()
    activation: Activation = counted.activations.activate(request)
    note()
    operation = counted.admit(activation)
    note()
    counted.end(operation)
    note()
    return found


def test_a_ledger_with_a_history_takes_no_more_batches_than_a_new_one(fresh_ledger: LiveLedger) -> None:
    first = costs(fresh_ledger)
    activation = fresh_ledger.active()
    for _ in range(3):
        fresh_ledger.end(fresh_ledger.admit(activation), "FAILED")
    fresh_ledger.retire(activation)
    assert costs(fresh_ledger) == first


def test_a_mutation_is_four_batches_on_two_connections(fresh_ledger: LiveLedger) -> None:
    counting = Counting(fresh_ledger.connect)
    activation = fresh_ledger.active()
    fresh_ledger.through(counting).admit(activation)
    assert (len(counting.batches), counting.connections) == (4, 2)


def test_the_door_of_an_activation_costs_no_batch_of_its_own(fresh_ledger: LiveLedger) -> None:
    counting = Counting(fresh_ledger.connect)
    counted = fresh_ledger.through(counting)
    request = make.request(fresh_ledger.enroll(2))
    for step in (counted.activations.prepare, counted.activations.activate):
        counting.batches.clear()
        step(request)
        assert len(counting.batches) == 4
