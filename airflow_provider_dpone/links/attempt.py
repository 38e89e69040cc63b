"""The button on a task instance that opens its attempts."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar
from urllib.parse import urlencode

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

PAGE = "/dpone"
"""Where the attempts page is mounted, under the API server's root."""


def attempts_url(dag_id: str, run_id: str, task_id: str, map_index: int) -> str:
    """The attempts of one task instance. Relative to the API server, whose own address a worker may not know."""
    query = urlencode({"dag_id": dag_id, "run_id": run_id, "task_id": task_id, "map_index": map_index})
    return f"{PAGE}/attempts?{query}"


class AttemptLink(BaseOperatorLink):
    """Finds attempts by coordinates, so that it needs no word from the worker.

    Airflow computes a link when a try has ended and has none for a try that was killed; the page itself, in the
    navigation and on each task instance, does not depend on it.
    """

    name: ClassVar[str] = "Guarded attempts"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        return attempts_url(ti_key.dag_id, ti_key.run_id, ti_key.task_id, ti_key.map_index)
