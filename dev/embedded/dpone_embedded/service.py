"""What the supervisor knows of a service."""

from __future__ import annotations

from threading import Event
from typing import Protocol

SERVICES = ("postgres", "sqlserver", "clickhouse", "airflow")

STAY = b"stay\n"
"""What an owner sends to its supervisor so that the stack outlives it."""


class Service(Protocol):
    """One thing that is started, watched and stopped. All calls come from one thread, the service's own.

    That thread lives as long as the service: the kernel signals a child when the *thread* that started it ends.
    """

    name: str

    def start(self, stop: Event) -> None:
        """Return when the service answers. Raise StackError when it cannot, Interrupted soon after `stop` is set."""

    def check(self) -> None:
        """Raise StackError if the service is no longer there."""

    def stop(self) -> None:
        """End it. Also after a failed or interrupted start; twice does no harm."""
