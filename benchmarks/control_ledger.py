"""What the control ledger and the gates cost: round trips, sessions, and seconds where there is nothing to count.

    python -m benchmarks.control_ledger [--owners 10,100,1000,10000] [--no-op 15] [--output docs/performance.md]

One run on an embedded stack of its own: SQL Server emulation and ClickHouse, both started and ended here. It writes its
tables between the marks of the output file, with date, machine and commit, and stops with an error when a figure that
must hold does not.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import secrets
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from dpone_embedded.clickhouse.server import ClickHouseServer
from tsqldev.process import served

from airflow_provider_dpone.attempts import require_succeeded
from airflow_provider_dpone.contracts.errors import Duplicate, GuardError, Overlap
from airflow_provider_dpone.drivers import Secret, drain
from airflow_provider_dpone.drivers.clickhouse import ClickHouseDsn
from airflow_provider_dpone.drivers.clickhouse import connect as connect_clickhouse
from airflow_provider_dpone.drivers.mssql import MsSqlDsn, connect, connect_autocommit
from airflow_provider_dpone.gates.clickhouse import ClickHouseGate
from airflow_provider_dpone.ledger.transaction import ControlLedger, ControlTransaction
from tests.support import ledger_records as make
from tests.support import live_gate
from tests.support.live_gate import LiveGate
from tests.support.live_ledger import LiveLedger, control_dsn, open_ledger
from tests.support.long_history import LongHistory
from tests.support.no_op_attempt import no_op_attempt, through
from tests.support.wire_counter import Http, Tds, WireCounter

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- benchmarks.control_ledger begins -->", "<!-- benchmarks.control_ledger ends -->"
LIMIT = 40
#: Nobody else reaches the server of one run.
_PASSWORD = secrets.token_urlsafe(16) + "1aA!"


@dataclass
class Report:
    """Lines of Markdown, and what did not hold."""

    lines: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def heading(self, text: str) -> None:
        self.lines += ["", f"### {text}"]
        print(f"\n{text}", flush=True)

    def table(self, head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        cells = [list(map(str, row)) for row in rows]
        self.lines += ["", f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
        self.lines += [f"| {' | '.join(row)} |" for row in cells]
        for row in cells:
            print("  " + " · ".join(row), flush=True)

    def say(self, text: str) -> None:
        self.lines += ["", text]
        print(f"  {text}", flush=True)

    def must(self, holds: bool, what: str) -> None:
        if not holds:
            self.broken.append(what)
            self.say(f"**Does not hold: {what}.**")


@dataclass(frozen=True)
class Stack:
    """The deployment that attempts run on, and the ClickHouse gate of mixed ones."""

    live: LiveGate
    master: MsSqlDsn
    access: ClickHouseDsn
    observer: ClickHouseDsn
    service_id: str
    database: str

    @property
    def target(self) -> MsSqlDsn:
        return replace(self.live.controller, database=self.live.target)

    def clickhouse(self, port: int | None = None) -> ClickHouseGate:
        access, observer = self.access, self.observer
        if port is not None:
            access, observer = (replace(dsn, host="127.0.0.1", port=port) for dsn in (access, observer))
        return ClickHouseGate(service_id=self.service_id, access=access, observer=observer)


@contextmanager
def stack() -> Iterator[Stack]:
    with ExitStack() as ends:
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory()))
        endpoint = ends.enter_context(served(folder, _PASSWORD))
        server = ClickHouseServer(folder / "clickhouse")
        server.start()
        ends.callback(server.stop)
        clickhouse = server.endpoint()
        master = control_dsn("127.0.0.1", endpoint.port, "sa", _PASSWORD, "master")
        access = ClickHouseDsn(
            host=clickhouse.host,
            port=clickhouse.port,
            user=clickhouse.admin_user,
            password=Secret(clickhouse.admin_password),
        )
        with closing(connect_clickhouse(access)) as client:
            service_id = str(client.command("SELECT toString(serverUUID())"))
            client.command("CREATE DATABASE benchmark ENGINE = Atomic")
        yield Stack(
            live=live_gate.provision(master),
            master=master,
            access=access,
            observer=access.for_user(clickhouse.observer_user, Secret(clickhouse.observer_password)),
            service_id=service_id,
            database="benchmark",
        )


class Traced:
    """Counts what each call of a ledger, gate or route takes on the wire."""

    def __init__(self, take: Callable[[str], None], inner: Any, name: str) -> None:
        self._take, self._inner, self._name = take, inner, name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(self._inner, attribute)
        if not callable(value):
            return value

        def traced(*args: Any, **kwargs: Any) -> Any:
            self._take("")
            answer = value(*args, **kwargs)
            what = f"{attribute} {args[1]}" if attribute == "put_evidence" else attribute
            self._take(f"{self._name}: {what}")
            return answer

        return traced


def round_trips(stack: Stack, report: Report) -> None:
    report.heading("Round trips of a whole attempt")
    with ExitStack() as ends:
        sql = ends.enter_context(WireCounter(stack.master.host, stack.master.port, Tds))
        web = ends.enter_context(WireCounter(stack.access.host, stack.access.port, Http))
        live = through(stack.live, sql.port)
        for name, mixed, at_once in (
            ("SQL Server", False, True),
            ("SQL Server and ClickHouse", True, True),
            ("SQL Server, in the steps of a task group", False, False),
        ):
            rows: list[list[object]] = []

            def take(step: str, rows: list[list[object]] = rows) -> None:
                seen, asked = sql.take(), web.take()
                if seen.requests or asked.requests:
                    rows.append([step or "between", seen.round_trips, seen.sessions, asked.round_trips, asked.sessions])

            attempt = no_op_attempt(
                live,
                target=stack.target,
                clickhouse=stack.clickhouse(web.port) if mixed else None,
                clickhouse_database=stack.database,
                traced=lambda inner, name, take=take: Traced(take, inner, name),
            )
            if at_once:
                attempt.run()
            else:
                settlement = attempt.resume(attempt.admit_and_work().operation)
                settlement.close()
                settlement.prove_quiescence()
                require_succeeded(settlement.finalize())
            total = [sum(int(str(row[number])) for row in rows) for number in range(1, 5)]
            report.lines += ["", f"{name}:"]
            print(f"  {name}", flush=True)
            report.table(_HEAD, [*rows, ["**whole life**", *total]])
            if at_once:
                report.must(total[0] <= LIMIT, f"{name}: at most {LIMIT} round trips, there are {total[0]}")


_HEAD = ("step", "SQL Server round trips", "SQL Server sessions", "ClickHouse requests", "ClickHouse connections")


def no_op(stack: Stack, report: Report, times: int) -> None:
    report.heading(f"A no-op attempt, {times} times")
    rows: list[list[object]] = []
    for name, gate in (("SQL Server", None), ("SQL Server and ClickHouse", stack.clickhouse())):
        seconds, quiet = [], []

        def timed(inner: Any, name: str, quiet: list[float] = quiet) -> Any:
            return Timed(inner, quiet) if name == "mssql" else inner

        for _ in range(times):
            attempt = no_op_attempt(
                stack.live,
                target=stack.target,
                clickhouse=gate,
                clickhouse_database=stack.database,
                traced=timed,
            )
            began = time.perf_counter()
            attempt.run()
            seconds.append(time.perf_counter() - began)
        rows.append([name, *_spread(seconds)])
        rows.append([f"{name}: proof that the SQL Server writer is gone", *_spread(quiet)])
    report.table(("what", "median", "fastest", "slowest"), rows)
    report.must(_seconds(rows[0][1]) <= 1.0, "a no-op attempt adds at most 1 s in the median")
    report.must(_seconds(rows[1][1]) < 1.0, "a clean writer is proven gone in under a second")


class Timed:
    """How long the gate takes to prove that a closed writer is gone."""

    def __init__(self, inner: Any, seconds: list[float]) -> None:
        self._inner, self._seconds = inner, seconds

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._inner, attribute)

    def prove_quiescent(self, *args: Any) -> Any:
        began = time.perf_counter()
        try:
            return self._inner.prove_quiescent(*args)
        finally:
            self._seconds.append(time.perf_counter() - began)


def _spread(seconds: Sequence[float]) -> list[str]:
    return [f"{value:.2f} s" for value in (statistics.median(seconds), min(seconds), max(seconds))]


def _seconds(text: object) -> float:
    return float(str(text).removesuffix(" s"))


def history(stack: Stack, report: Report, sizes: Sequence[int]) -> None:
    report.heading("Prepare, activate and admit after a long past")
    rows, counts = [], set()
    for owners in (0, *sizes):
        operations = 10 * owners if owners <= 1000 else owners
        ledger = new_ledger(stack)
        if owners:
            LongHistory(owners, operations // owners).plant(ledger.dsn)
        taken, seconds = _counted(ledger), _timed(ledger)
        counts.add(taken)
        rows.append([f"{owners:,}", f"{operations:,}", *taken, *(f"{each:.2f} s" for each in seconds)])
        if owners == 1000:
            report.must(max(seconds) < 1, "prepare and admit after 1,000 owners and 10,000 operations: under a second")
    head = ("retired owners", "ended operations", "round trips of prepare", "of admit", "prepare", "activate", "admit")
    report.table(head, rows)
    report.must(len(counts) == 1, "prepare and admit take the same round trips whatever the ledger holds")


def _counted(ledger: LiveLedger) -> tuple[int, int]:
    """The round trips of prepare and of admit."""
    with WireCounter(ledger.dsn.host, ledger.dsn.port, Tds) as wire:
        at_wire = replace(ledger.dsn, host="127.0.0.1", port=wire.port, encrypt="no")
        seen = ledger.through(lambda: connect_autocommit(at_wire))
        request = make.request(ledger.enroll(2))
        wire.take()
        seen.activations.prepare(request)
        prepared = wire.take().round_trips
        activation = seen.activations.activate(request)
        wire.take()
        seen.admit(activation)
        return prepared, wire.take().round_trips


def _timed(ledger: LiveLedger, times: int = 5) -> list[float]:
    """The median seconds of prepare, activate and admit."""
    found = []
    fast = ledger.through(lambda: connect_autocommit(ledger.dsn))
    for _ in range(times):
        request = make.request(ledger.enroll(2))
        marks = [time.perf_counter()]
        fast.activations.prepare(request)
        marks.append(time.perf_counter())
        activation = fast.activations.activate(request)
        marks.append(time.perf_counter())
        fast.admit(activation)
        marks.append(time.perf_counter())
        found.append([after - before for before, after in pairwise(marks)])
    return [statistics.median(each) for each in zip(*found, strict=True)]


def new_ledger(stack: Stack) -> LiveLedger:
    """A ledger of its own on the stack, open for activations."""
    name = f"ledger_{secrets.token_hex(4)}"
    with closing(connect(stack.master)) as connection:
        connection.setautocommit(True)  # type: ignore[attr-defined]  # mssql-python's connection
        drain(connection, f"CREATE DATABASE [{name}]")
    return open_ledger(replace(stack.master, database=name))


def admissions(stack: Stack, report: Report) -> None:
    report.heading("Admissions at the same time")
    ledger = new_ledger(stack)
    wide = ledger.active(64)
    narrow = ledger.active(2)
    twin = ledger.attempt(ledger.active(2))
    rows = []
    for name, count, admit, wanted, refusal in (
        ("64 on disjoint guards", 64, lambda number: ledger.admit(wide, f"w{number:03}"), 64, ()),
        ("64 on one guard", 64, lambda number: ledger.admit(narrow), 1, (Overlap,)),
        (
            "11 duplicates of one try",
            11,
            lambda number: ledger.attempts.admit_once(*twin, ledger.clickhouse()),
            1,
            (Duplicate,),
        ),
    ):
        starts, admitted, refused, seconds = together(count, admit)
        words = ", ".join(sorted({type(error).__name__ for error in refused})) or "none"
        rows.append([name, len(admitted), f"{len(refused)} ({words})", f"{starts * 1000:.0f} ms", f"{seconds:.1f} s"])
        exact = len(admitted) == wanted and all(isinstance(error, refusal) for error in refused)
        report.must(exact, f"{name}: exactly {wanted} admitted")
    report.table(("what", "admitted", "refused", "all started within", "all answered within"), rows)


def together(count: int, call: Callable[[int], object]) -> tuple[float, list[object], list[GuardError], float]:
    """Everything at once: within how many seconds they started, who got what, and when the last one was answered."""
    barrier = threading.Barrier(count)
    starts: list[float] = []
    admitted: list[object] = []
    refused: list[GuardError] = []

    def run(number: int) -> None:
        barrier.wait()
        starts.append(time.perf_counter())
        try:
            admitted.append(call(number))
        except GuardError as err:
            refused.append(err)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return max(starts) - min(starts), admitted, refused, time.perf_counter() - min(starts)


def readers(stack: Stack, report: Report) -> None:
    report.heading("Reading while a writer holds the lock and has written")
    ledger = new_ledger(stack)
    activation = ledger.active()
    operation = ledger.admit(activation, principals=ledger.login())
    key = operation.attempt_sha256
    calls: dict[str, Callable[[], object]] = {
        "read_exact": lambda: ledger.attempts.read_exact(key),
        "unresolved": ledger.attempts.unresolved,
        "gate": lambda: ledger.gates.read(key),
        "require_active": lambda: ledger.activations.require_active(activation.request),
    }
    alone, beside = _timings(calls), {}

    def work(transaction: ControlTransaction) -> None:
        transaction.run(("advance_gate", [key, "JOURNALED", "CLOSING", ""]))
        beside.update(_timings(calls))

    ControlLedger(ledger.connect, ledger.settings).mutate("benchmark", work, lambda transaction: True)
    rows = [[name, f"{alone[name] * 1000:.0f} ms", f"{beside[name] * 1000:.0f} ms"] for name in calls]
    report.table(("reading", "alone", "beside a writer that is not done"), rows)


def _timings(calls: dict[str, Callable[[], object]], times: int = 5) -> dict[str, float]:
    found = {}
    for name, call in calls.items():
        seconds = []
        for _ in range(times):
            began = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - began)
        found[name] = statistics.median(seconds)
    return found


def header() -> list[str]:
    commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    changed = subprocess.run(
        ["git", "status", "--porcelain", "--", "airflow_provider_dpone"], cwd=ROOT, capture_output=True, text=True
    )
    load = os.getloadavg()
    return [
        f"- measured {datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC at commit "
        f"{commit.stdout.strip()}{' with uncommitted changes of the product' if changed.stdout.strip() else ''}",
        f"- machine: {os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}; load average "
        f"{load[0]:.1f} when the run began: seconds grow with it, counts do not",
        "- engine: **embedded SQL Server emulation** (dev/tsqldev) and embedded ClickHouse; nothing here was measured "
        "on SQL Server",
    ]


def write(report: Report, output: Path, begin: str = BEGIN, end: str = END) -> None:
    """Put the report between two marks of a file."""
    text = output.read_text(encoding="utf-8")
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    output.write_text(f"{before}{begin}\n" + "\n".join(report.lines) + f"\n\n{end}{after}", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.control_ledger")
    parser.add_argument("--owners", default="10,100,1000,10000")
    parser.add_argument("--no-op", type=int, default=15)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "performance.md")
    options = parser.parse_args()
    report = Report(header())
    with stack() as running:
        round_trips(running, report)
        no_op(running, report, options.no_op)
        admissions(running, report)
        readers(running, report)
        history(running, report, [int(each) for each in options.owners.split(",")])
    write(report, options.output)
    for what in report.broken:
        print(f"does not hold: {what}")
    return 1 if report.broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
