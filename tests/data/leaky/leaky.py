"""A task that says its secret wherever a task can: the positive control of the search for secrets."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import mssql_python
from airflow.sdk import DAG, BaseOperator


class Leaky(BaseOperator):
    """What the product must not be."""

    template_fields: Sequence[str] = ("rendered",)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rendered = "{{ dag.params['planted'] }}"

    def execute(self, context: Any) -> str:
        planted = os.environ["PLANTED"]
        self.kept = planted
        logging.getLogger("leaky").debug("planted in the log: %s", planted)
        mssql_python.logger.debug("planted in the driver's log: %s", planted)
        subprocess.run([sys.executable, "-c", "import time; time.sleep(0.3)", planted], check=True)
        return planted

    def on_kill(self) -> None:
        """Nothing to stop."""


with DAG("leaky", schedule=None, params={"planted": os.environ.get("PLANTED", "")}) as dag:
    Leaky(task_id="say")
