"""dbt-sqlserver's own functional test cases against the endpoint: how many of how many pass, and what the rest says.

    python dev/tsqldev/campaigns/dbt_adapter.py CHECKOUT --python VENV/bin/python [--backend NAME] [--report FILE] [FILE...]

CHECKOUT is a checkout of github.com/dbt-msft/dbt-sqlserver; VENV a virtual environment apart from this project's with
dbt-core, dbt-sqlserver, dbt-tests-adapter, pytest, pytest-timeout, pytest-dotenv, freezegun, flaky and the drivers. The
files run one at a time, each in a process of its own with a time limit. Slow: about half an hour on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml
from dataclasses import dataclass
from pathlib import Path

from tsqldev.process import served
from tsqldev.pytest_plugin import TsqlServer, odbc_driver

DATABASE = "TestDB"
_REFUSED = re.compile(r"Not supported by this emulation of SQL Server: ([^\n'\"\\]+)")
USERS = ("DBT_TEST_USER_1", "DBT_TEST_USER_2", "DBT_TEST_USER_3")


@dataclass(frozen=True, slots=True)
class Case:
    """One test case and what became of it: passed, failed or skipped (with the first line of the reason)."""

    file: str
    name: str
    outcome: str
    reason: str
    text: str


def prepare(server: TsqlServer) -> None:
    """The database and the users without login that the adapter's own set-up script makes."""
    connection = server.connect()
    try:
        connection.execute(f"CREATE DATABASE [{DATABASE}] COLLATE SQL_Latin1_General_CP1_CI_AS")
        connection.execute(f"USE [{DATABASE}]")
        for user in USERS:
            connection.execute(f"CREATE USER [{user}] WITHOUT LOGIN")
    finally:
        connection.close()


def environment(server: TsqlServer, backend: str) -> dict[str, str]:
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "SQLSERVER_TEST"))},
        **{user: user for user in USERS},
        "SQLSERVER_TEST_DRIVER": odbc_driver(),
        "SQLSERVER_TEST_HOST": server.host,
        "SQLSERVER_TEST_PORT": str(server.port),
        "SQLSERVER_TEST_USER": server.sa,
        "SQLSERVER_TEST_PASS": server.sa_password,
        "SQLSERVER_TEST_DBNAME": DATABASE,
        "SQLSERVER_TEST_ENCRYPT": "True",
        "SQLSERVER_TEST_TRUST_CERT": "True",
        "SQLSERVER_TEST_BACKEND": backend,
        "DO_NOT_TRACK": "1",
        "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
        "DBT_VERSION_CHECK": "false",
    }


def run_file(python: Path, checkout: Path, file: str, env: dict[str, str], limit: int, only: str) -> list[Case]:
    """The cases of one file. A file that does not end in time counts as one failed case."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "results.xml")
        command = [str(python), "-m", "pytest", file, "-q", "-p", "no:cacheprovider", "--timeout", "180"]
        command += ["--junitxml", str(results), "-o", "junit_logging=all"]
        if only:
            command += ["-k", only]
        try:
            done = subprocess.run(
                command, cwd=checkout, env=env, capture_output=True, text=True, timeout=limit, check=False
            )
        except subprocess.TimeoutExpired:
            return [Case(file, "*", "failed", f"the file did not end in {limit} s", "")]
        if not results.exists():
            return [Case(file, "*", "failed", "pytest made no report", done.stdout + done.stderr)]
        return [_case(file, node) for node in xml.parse(results).iter("testcase")]


def _case(file: str, node: xml.Element) -> Case:
    name = f"{node.get('classname', '').rsplit('.', 1)[-1]}::{node.get('name')}"
    text = "".join(part.text or "" for part in node.iter())
    for outcome, tag in (("failed", "failure"), ("failed", "error"), ("skipped", "skipped")):
        found = node.find(tag)
        if found is not None and found.get("type") == "pytest.xfail":
            break  # it fails as the case says it must
        if found is not None:
            if refused := _REFUSED.search(text):
                return Case(file, name, outcome, f"refused: {refused.group(1)}", text)
            return Case(file, name, outcome, (found.get("message") or "").split("\n")[0][:300], text)
    return Case(file, name, "passed", "", "")


def report(cases: list[Case]) -> str:
    """A table of files with their counts, then each case that did not pass."""
    lines = ["| file | cases | passed | failed | skipped by itself |", "|---|---|---|---|---|"]
    for file in sorted({case.file for case in cases}):
        outcomes = [case.outcome for case in cases if case.file == file]
        counts = [outcomes.count(outcome) for outcome in ("passed", "failed", "skipped")]
        lines.append(
            f"| {file.removeprefix('tests/functional/adapter/')} | {len(outcomes)} | {' | '.join(map(str, counts))} |"
        )
    outcomes = [case.outcome for case in cases]
    counts = [outcomes.count(outcome) for outcome in ("passed", "failed", "skipped")]
    lines.append(f"| **all** | {len(outcomes)} | {' | '.join(map(str, counts))} |")
    lines.append("")
    lines += [
        f"- {case.file.removeprefix('tests/functional/adapter/')} `{case.name}`: {case.outcome}: {case.reason}"
        for case in cases
        if case.outcome != "passed"
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--python", type=Path, required=True, help="the interpreter with dbt-tests-adapter")
    parser.add_argument("--backend", default="mssql-python", choices=("mssql-python", "pyodbc"))
    parser.add_argument("--limit", type=int, default=1200, help="seconds that one file may take")
    parser.add_argument("--only", default="", help="pytest's -k: cases to run")
    parser.add_argument("--report", type=Path, help="file for the report; standard output without it")
    parser.add_argument("--details", type=Path, help="file for all that failed cases said, one JSON line each")
    parser.add_argument("--trace", type=Path, help="file for the endpoint's trace")
    parser.add_argument("files", nargs="*", help="test files below the checkout; all functional ones without it")
    options = parser.parse_intermixed_args()
    files = options.files or sorted(
        str(path.relative_to(options.checkout)) for path in options.checkout.glob("tests/functional/**/test_*.py")
    )
    cases: list[Case] = []
    with tempfile.TemporaryDirectory() as folder:
        password = secrets.token_urlsafe(16) + "aA1"
        with served(Path(folder), password, trace=options.trace) as endpoint:
            server = TsqlServer("127.0.0.1", endpoint.port, password)
            prepare(server)
            env = environment(server, options.backend)
            for file in files:
                began = time.monotonic()
                found = run_file(options.python, options.checkout, file, env, options.limit, options.only)
                cases += found
                passed = sum(case.outcome == "passed" for case in found)
                took = time.monotonic() - began
                print(f"{passed:4} of {len(found):4}  {took:5.0f} s  {file}", file=sys.stderr, flush=True)
                if options.details:
                    with options.details.open("a", encoding="utf-8") as details:
                        for case in found:
                            if case.outcome == "failed":
                                details.write(json.dumps([case.file, case.name, case.reason, case.text]) + "\n")
    text = report(cases)
    if options.report:
        options.report.write_text(text, encoding="utf-8")
    else:
        print(text)
    return 0 if all(case.outcome != "failed" for case in cases) else 1


if __name__ == "__main__":
    sys.exit(main())
