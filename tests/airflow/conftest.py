"""Airflow without a database: a folder of its own, and a metadata address that would fail if anything used it."""

from __future__ import annotations

import os
import tempfile

# Before anything imports Airflow: it writes its configuration into AIRFLOW_HOME at import.
os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="dpone-airflow-")
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
os.environ["AIRFLOW__CORE__UNIT_TEST_MODE"] = "False"
