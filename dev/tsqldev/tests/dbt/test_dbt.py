"""A whole dbt project with the unmodified dbt-sqlserver adapter: what it builds first, on the next day, and anew."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tsqldev.pytest_plugin import TsqlServer, odbc_driver

Dbt = Callable[..., dict[str, str]]


@pytest.fixture(params=["mssql-python", "pyodbc"])
def dbt(request: pytest.FixtureRequest, tsql_server: TsqlServer, tsql_database: str, tmp_path: Path) -> Dbt:
    """Runs a dbt command on a copy of the project; answers the status of each node."""
    project = tmp_path / "project"
    shutil.copytree(Path(__file__).parent / "project", project)
    output = {
        "type": "sqlserver",
        "backend": request.param,
        "driver": odbc_driver(),
        "host": tsql_server.host,
        "port": tsql_server.port,
        "database": tsql_database,
        "schema": "shop",
        "user": tsql_server.sa,
        "password": "{{ env_var('DBT_ENV_SECRET_PASSWORD') }}",
        "trust_cert": True,
        "threads": 2,
    }
    profile = {"shop": {"target": "test", "outputs": {"test": output}}}
    (tmp_path / "profiles.yml").write_text(json.dumps(profile))

    def run(*arguments: str, **variables: int) -> dict[str, str]:
        command = [sys.executable, "-c", "from dbt.cli.main import cli; cli()", *arguments]
        command += ["--project-dir", str(project), "--profiles-dir", str(tmp_path)]
        command += ["--vars", json.dumps(variables)]
        environment = {
            **os.environ,
            "DBT_ENV_SECRET_PASSWORD": tsql_server.sa_password,
            "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
        }
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
        results = json.loads((project / "target" / "run_results.json").read_text())["results"]
        return {result["unique_id"]: result["status"] for result in results}

    return run


@pytest.fixture
def query(tsql_server: TsqlServer, tsql_database: str) -> Callable[[str], list[tuple[Any, ...]]]:
    def run(sql: str) -> list[tuple[Any, ...]]:
        connection = tsql_server.connect(database=tsql_database)
        try:
            return [tuple(row) for row in connection.execute(sql).fetchall()]
        finally:
            connection.close()

    return run


def test_build_docs_next_day_and_full_refresh(
    dbt: Dbt, query: Callable[[str], list[tuple[Any, ...]]], tmp_path: Path
) -> None:
    merged = "SELECT order_id, status, [day] FROM shop.orders_merged ORDER BY order_id"
    replaced = merged.replace("orders_merged", "orders_replaced")
    history = "SELECT order_id, status, IIF(dbt_valid_to IS NULL, 1, 0) FROM snapshots.order_history ORDER BY 1, 3"

    # The first day.
    assert set(dbt("build", day=1).values()) == {"success", "pass"}
    first_day = [(1, "NEW", 1), (2, "NEW", 1)]
    assert query(merged) == first_day
    assert query(replaced) == first_day
    assert query(history) == [(1, "NEW", 1), (2, "NEW", 1)]
    assert query("SELECT customer_name, orders, amount, order_ids FROM shop.customer_totals ORDER BY customer_id") == [
        ("Ada", 1, Decimal("10.5000"), "1"),
        ("Žofie", 1, Decimal("20.2500"), "2"),
        ('O\'Brien, "Pat"', 1, None, None),
    ]

    # A contract is a table with its constraints, its index, its descriptions and its grants.
    assert query("SELECT name, type FROM sys.objects WHERE parent_object_id = OBJECT_ID('shop.contracted')") != []
    assert query("SELECT definition FROM sys.check_constraints WHERE name = 'ck_amount'") == [("([amount]>(0))",)]
    assert query(
        "SELECT CAST(value AS nvarchar(100)) FROM sys.extended_properties "
        "WHERE major_id = OBJECT_ID('shop.contracted') AND name = 'MS_Description' ORDER BY minor_id"
    ) == [("It's a contract",), ("The key",), ("",), ("",)]
    assert query(
        "SELECT permission_name, USER_NAME(grantee_principal_id) FROM sys.database_permissions "
        "WHERE major_id = OBJECT_ID('shop.contracted')"
    ) == [("SELECT", "public")]

    # The docs describe what was built.
    dbt("docs", "generate", day=1)
    catalog = json.loads((tmp_path / "project" / "target" / "catalog.json").read_text())
    assert catalog["errors"] is None
    assert {name.rsplit(".", 1)[1] for name in catalog["nodes"]} >= {"stg_orders", "order_state", "orders", "customers"}
    columns = catalog["nodes"]["model.shop.order_state"]["columns"]
    assert [column["name"] for column in sorted(columns.values(), key=lambda c: c["index"])] == [
        "order_id",
        "customer_name",
        "status",
        "amount",
        "ordered_at",
    ]

    # The next day changes an order and adds two.
    assert set(dbt("build", day=2).values()) == {"success", "pass"}
    next_day = [(1, "PAID", 2), (2, "NEW", 1), (3, "PAID", 2), (4, "NEW", 2)]
    assert query(merged) == next_day
    assert query(replaced) == next_day
    assert query("SELECT COUNT(*) FROM shop.orders_appended") == [(5,)]
    assert query(history) == [(1, "NEW", 0), (1, "PAID", 1), (2, "NEW", 1), (3, "PAID", 1), (4, "NEW", 1)]
    assert query("SELECT name FROM sys.columns WHERE object_id = OBJECT_ID('shop.orders_evolved') ORDER BY name") == [
        ("amount",),
        ("day",),
        ("order_id",),
    ]
    assert query("SELECT CONVERT(varchar(27), ordered_at, 121) FROM shop.order_state WHERE order_id = 4") == [
        ("2026-01-02 23:59:59.9999999",)
    ]

    # Anew: the incremental models start over from the first day.
    assert set(dbt("build", "--full-refresh", day=2).values()) == {"success", "pass"}
    assert query(merged) == [(1, "NEW", 1), (2, "NEW", 1)]
    assert query("SELECT name FROM sys.objects WHERE name LIKE '%[_][_]dbt%'") == []
