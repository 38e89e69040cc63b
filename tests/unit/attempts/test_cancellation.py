"""Cancelling from a signal handler and from another thread, at moments that are easy to forget."""

from __future__ import annotations

import logging
import signal
import threading
from types import FrameType

import pytest

from airflow_provider_dpone.attempts.context import Cancellation

LOG = logging.getLogger("test")


def test_what_is_being_cancelled_is_not_left_before_its_cancel_has_returned() -> None:
    """Handles that are freed while the driver is inside a cancel take the whole process down."""
    cancellation, inside, go_on = Cancellation(), threading.Event(), threading.Event()
    order: list[str] = []

    def cancel() -> None:
        inside.set()
        go_on.wait(10)
        order.append("cancelled")

    def work() -> None:
        with cancellation.register(cancel):
            inside.wait(10)
        order.append("left")

    worker = threading.Thread(target=work)
    worker.start()
    canceller = threading.Thread(target=cancellation.cancel, args=(LOG,))
    canceller.start()
    inside.wait(10)
    worker.join(0.2)
    assert worker.is_alive()
    go_on.set()
    worker.join(10)
    canceller.join(10)
    assert order == ["cancelled", "left"]


@pytest.mark.timeout(20)
def test_a_signal_that_comes_while_a_callback_runs_does_not_wait_for_itself() -> None:
    cancellation = Cancellation()
    calls: list[str] = []

    def cancel() -> None:
        calls.append("cancel")
        if len(calls) == 1:
            signal.raise_signal(signal.SIGUSR1)

    def handler(number: int, frame: FrameType | None) -> None:
        cancellation.cancel(LOG)

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with cancellation.register(cancel):
            cancellation.cancel(LOG)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert calls == ["cancel", "cancel"]
