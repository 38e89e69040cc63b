"""Runs one component profile and writes summary.json and junit.xml: what was run, where, and how each case ended.

    python dev/profiles/component_profile.py --profile gate --output-dir DIR

`dponectl component-check` runs this. Each run has an endpoint of its own, which is gone afterwards; with --dsn the same
cases run on a SQL Server that is empty and declared disposable, and is emptied again. A missing, skipped, failed,
repeated or foreign case makes the result FAIL, and so does a failed clean-up. So does a source tree with uncommitted
changes, unless --working-tree says that it is meant: the receipt then says so too, and unlocks nonproduction only.
`dponectl ledger record-profile DIR` records a green gate profile. Driver messages are not kept: they may hold what does
not belong in an artefact.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import xml.etree.ElementTree as ET  # the file is pytest's own
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROFILES = Path(__file__).with_name("profiles.toml")
_OTHER_REPOSITORY = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
)
#: With these a user's environment would change which tests run, and how.
_OTHER_TESTS = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS")

# The provider of this checkout, which pytest finds first as well, and not one that is installed somewhere.
sys.path[:0] = [str(ROOT), str(PROFILES.parent)]

import psutil  # noqa: E402
from disposable_server import DisposableServer, clear, contents  # noqa: E402

from airflow_provider_dpone import __version__  # noqa: E402
from airflow_provider_dpone.composition.profile_folder import (  # noqa: E402
    JUNIT,
    SUMMARY,
    SUMMARY_SCHEMA,
    read_profile_folder,
)
from airflow_provider_dpone.contracts import canonical, gate_profile  # noqa: E402
from airflow_provider_dpone.contracts.errors import AdmissionRefused, ConfigurationError  # noqa: E402


@dataclass(frozen=True, slots=True, kw_only=True)
class RanCase:
    """One test that ran: its node id and its outcome (passed, failed, error, skipped)."""

    node: str
    outcome: gate_profile.Outcome
    seconds: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a test run left: its cases, on which server and through which driver (None: never asked), and what remained."""

    cases: Sequence[RanCase]
    engine: gate_profile.Engine | None
    driver: str | None = None
    left_behind: Sequence[str] = ()


def nodes_of(profile: str, names_to_nodes: Mapping[str, str]) -> Mapping[str, str]:
    """The test of each required case. Refused when the file names other cases than the product requires."""
    required = gate_profile.PROFILE_CASES[profile]
    if set(names_to_nodes) != set(required) or len(set(names_to_nodes.values())) != len(required):
        differing = sorted(set(names_to_nodes) ^ set(required)) or "one test stands for two cases"
        raise SystemExit(f"{PROFILES.name}: the cases of {profile} are not those of the product: {differing}")
    return names_to_nodes


def read_report(path: Path) -> Ran:
    """Pytest's junit file."""
    suite = ET.parse(path).getroot().find("testsuite")
    assert suite is not None
    properties = {item.get("name"): item.get("value", "") for item in suite.iter("property")}
    tags: dict[str, gate_profile.Outcome] = {"failure": "failed", "error": "error", "skipped": "skipped"}
    cases = []
    for item in suite.iter("testcase"):
        outcome: gate_profile.Outcome = next((tags[child.tag] for child in item if child.tag in tags), "passed")
        node = f"{item.get('classname', '').replace('.', '/')}.py::{item.get('name')}"
        cases.append(RanCase(node=node, outcome=outcome, seconds=item.get("time", "0")))
    text, version = properties.get("engine_version_text"), properties.get("engine_product_version")
    driver = properties.get("driver")
    try:
        engine = gate_profile.engine_of(text, version) if text and version and driver else None
    except AdmissionRefused:
        engine = None
    return Ran(cases=cases, engine=engine, driver=driver)


def problems(
    profile: str, nodes: Mapping[str, str], ran: Ran, source: gate_profile.Source, *, dirty: bool
) -> list[str]:
    """Everything that keeps the result from being green. ``dirty``: a tree with uncommitted changes is meant."""
    found = [f"foreign test: {case.node}" for case in ran.cases if case.node not in nodes.values()]
    found += gate_profile.case_problems(profile, named(nodes, ran))
    if ran.engine is None:
        found.append("the engine or the driver was not recorded")
    found += [f"clean-up failed: {what}" for what in ran.left_behind]
    if not source.clean and not dirty:
        found.append("the source tree has uncommitted changes or no commit; --working-tree says that this is meant")
    return found


def named(nodes: Mapping[str, str], ran: Ran) -> tuple[gate_profile.Case, ...]:
    """What ran, under the product's names, in the order of a receipt."""
    names = {node: name for name, node in nodes.items()}
    known = (case for case in ran.cases if case.node in names)
    return tuple(sorted(gate_profile.Case(name=names[case.node], outcome=case.outcome) for case in known))


def source_now() -> gate_profile.Source:
    """HEAD, and whether the tree is exactly that. Without git nobody can say.

    Asked in full: a user's settings may leave new files out of a status, and flags of the index changed ones.
    """
    try:
        commit = _git("rev-parse", "HEAD")
        status = _git("status", "--porcelain", "--untracked-files=all", "--ignore-submodules=none")
        unseen = [line for line in _git("ls-files", "-v").splitlines() if not line.startswith("H ")]
        clean = not status and not unseen
    except (OSError, subprocess.CalledProcessError):
        return gate_profile.Source(commit=None, clean=False)
    return gate_profile.Source(commit=commit, clean=clean)


def _git(*arguments: str) -> str:
    """Of this checkout: git sets these variables for what a hook of another one starts."""
    environment = {name: value for name, value in os.environ.items() if name not in _OTHER_REPOSITORY}
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.strip()


def receipt(
    nodes: Mapping[str, str], ran: Ran, source: gate_profile.Source, found: Sequence[str]
) -> gate_profile.GateReceipt | None:
    """The receipt of a gate profile run; None where it would not tell the whole run."""
    cases = named(nodes, ran)
    if ran.engine is None or len(cases) != len(ran.cases):
        return None
    return gate_profile.GateReceipt(
        result="FAIL" if found else "PASS",
        engine=ran.engine,
        product_version=__version__,
        source=source,
        cases=cases,
    )


def write(
    output: Path,
    profile: str,
    evidence: str,
    nodes: Mapping[str, str],
    ran: Ran,
    source: gate_profile.Source,
    found: Sequence[str],
) -> None:
    """The two artefacts. Outcomes only."""
    names = {node: name for name, node in nodes.items()}
    suite = ET.Element("testsuite", name=profile, tests=str(len(ran.cases)))
    for case in ran.cases:
        item = ET.SubElement(suite, "testcase", name=names.get(case.node, case.node), time=case.seconds)
        if case.outcome != "passed":
            ET.SubElement(item, "failure" if case.outcome == "failed" else case.outcome)
    junit = ET.tostring(suite, encoding="utf-8", xml_declaration=True)
    (output / JUNIT).write_bytes(junit)
    made = receipt(nodes, ran, source, found) if profile == "gate" else None
    ordered = sorted(ran.cases, key=lambda case: (names.get(case.node, case.node), case.outcome))
    engine = ran.engine
    summary = {
        "schema": SUMMARY_SCHEMA,
        "profile": profile,
        "evidence": evidence,
        "result": "FAIL" if found else "PASS",
        "problems": list(found),
        "product_version": __version__,
        "source": {"commit": source.commit, "clean": source.clean},
        "engine": None
        if engine is None
        else {"name": engine.name, "product_version": engine.product_version, "version_text": engine.version_text},
        "driver": ran.driver,
        "cases": [
            {"name": names.get(case.node), "node": case.node, "outcome": case.outcome, "seconds": case.seconds}
            for case in ordered
        ],
        "junit_sha256": canonical.sha256_text(junit),
        "receipt_sha256": None if made is None else made.sha256,
    }
    (output / SUMMARY).write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")


def run(cases: Sequence[str], server: DisposableServer | None = None, bulk_file: str | None = None) -> Ran:
    """Run the cases against an endpoint of their own, or on the server, and look at what is left of it."""
    scratch = Path(tempfile.mkdtemp(prefix="component-profile-"))
    report = scratch / "report.xml"
    paths = [str(PROFILES.parent), os.environ.get("PYTHONPATH", "")]
    inherited = {name: value for name, value in os.environ.items() if name not in _OTHER_TESTS}
    environment = inherited | {
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        # Every file and every process of the run names this folder.
        "PYTEST_DEBUG_TEMPROOT": str(scratch),
    }
    if server is not None:
        environment |= server.environment()
    if bulk_file is not None:
        environment["MSSQL_TEST_BULK_FILE"] = bulk_file
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "component_profile_plugin"]
    # Whether a text is in the emulation's corpus is a question about the emulation, and no case of a profile.
    command += ["-o", "tsqldev_corpus=", f"--junitxml={report}", *cases]
    try:
        # In a process group of its own: an interrupt reaches it once, and it takes its server down with it.
        process = subprocess.Popen(command, cwd=ROOT, env=environment, process_group=0)
        try:
            process.wait()
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            process.wait()
            raise
        ran = read_report(report) if report.exists() else Ran(cases=(), engine=None)
    finally:
        left_behind = clean_up(scratch, server)
    return replace(ran, left_behind=left_behind)


def clean_up(scratch: Path, server: DisposableServer | None) -> list[str]:
    """Take away what the run left, and say what should have been gone already or cannot be removed."""
    found = []
    if server is not None:
        try:
            clear(server.connect)
            if remaining := contents(server.connect):
                found.append(f"the server still has {remaining}")
        except Exception as err:  # noqa: BLE001  # whatever it is, the server is not known to be clean
            found.append(f"the server could not be emptied ({type(err).__name__})")
    if running := _processes_of(scratch):
        found.append(f"{len(running)} processes of the endpoint were still running")
        for process in running:
            process.kill()
    try:
        shutil.rmtree(scratch)
    except OSError:
        found.append("the files of the endpoint could not be removed")
    return found


def _processes_of(scratch: Path, seconds: float = 10.0) -> list[psutil.Process]:
    """Processes that name the folder of the run and do not end by themselves."""
    deadline = time.monotonic() + seconds
    while True:
        found = [
            process
            for process in psutil.process_iter(["cmdline"])
            if process.pid != os.getpid() and any(str(scratch) in word for word in process.info["cmdline"] or ())
        ]
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


def is_known(folder: Path, source: gate_profile.Source) -> bool:
    """Whether a folder holds a green gate profile of exactly this clean source."""
    try:
        known = read_profile_folder(folder)
    except ConfigurationError:
        return False
    return known.green and source.clean and (known.source, known.product_version) == (source, __version__)


def server_given(given: argparse.Namespace) -> DisposableServer | None:
    """The server to run on, after it was found empty; None: an endpoint of the run's own. Ends the run otherwise."""
    if given.dsn is None:
        if "MSSQL_TEST_DSN" in os.environ:
            raise SystemExit(
                "MSSQL_TEST_DSN is set; a profile runs on an endpoint of its own, or on the server of --dsn."
            )
        return None
    if re.search(r"(?i)(pwd|password)\s*=", given.dsn) or given.password_file is None or not given.disposable:
        raise SystemExit("--dsn needs --password-file and --disposable, and holds no password itself.")
    server = DisposableServer(dsn=given.dsn, password_file=given.password_file.resolve())
    try:
        found = contents(server.connect)
    except Exception as err:
        raise SystemExit(f"the server of --dsn cannot be looked at ({type(err).__name__}); nothing was run.") from err
    if found:
        raise SystemExit(f"the server of --dsn is not empty: {found}. Nothing was run, and nothing was removed.")
    return server


def main(arguments: Sequence[str] | None = None) -> int:
    profiles = tomllib.loads(PROFILES.read_text(encoding="utf-8"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--profile", choices=sorted(profiles), default="store")
    parser.add_argument("--output-dir", type=Path, required=True)
    parser.add_argument(
        "--working-tree",
        action="store_true",
        help="accept uncommitted changes; the receipt says so, and unlocks nonproduction only",
    )
    parser.add_argument(
        "--unless",
        type=Path,
        metavar="DIR",
        help="run nothing when DIR holds a green gate profile of this clean source",
    )
    parser.add_argument(
        "--dsn", metavar="TEXT", help="'SERVER=host,port;UID=sa' of an empty SQL Server, without its password"
    )
    parser.add_argument("--password-file", type=Path, help="file whose first line is that login's password")
    parser.add_argument("--disposable", action="store_true", help="everything on that server may be removed")
    parser.add_argument("--bulk-file", metavar="PATH", help="a file of that server with the bytes '1' and line feed")
    given = parser.parse_args(arguments)
    # A termination ends the run as Ctrl-C does: the server that it started is stopped.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    profile = profiles[given.profile]
    if "unavailable" in profile:
        print(f"{given.profile}: not run: {profile['unavailable']}.", file=sys.stderr)
        return 2
    nodes = nodes_of(given.profile, profile["cases"])
    output: Path = given.output_dir.resolve()
    if output.exists() or output.is_relative_to(ROOT):
        print("--output-dir must be a new directory outside of the checkout.", file=sys.stderr)
        return 2
    server = server_given(given)
    before = source_now()
    if given.unless is not None and is_known(given.unless, before):
        print(f"{given.profile}: PASS already, in {given.unless}")
        return 0
    output.mkdir(parents=True)
    ran = run(list(nodes.values()), server, given.bulk_file)
    # Clean is what was so from the first case to the last.
    source = gate_profile.Source(commit=before.commit, clean=before.clean and source_now() == before)
    found = problems(given.profile, nodes, ran, source, dirty=given.working_tree)
    if any(output.iterdir()):
        found.append("the output folder is not as it was left: somebody else writes there")
    try:
        write(output, given.profile, profile["evidence"], nodes, ran, source, found)
    except OSError as err:
        # What was begun is refused by whoever reads it: the two files name each other.
        print(f"{given.profile}: {output} could not be written ({err.strerror}): no result.", file=sys.stderr)
        return 1
    print(f"{given.profile}: {'FAIL' if found else 'PASS'} on {ran.engine or 'an unknown engine'}; see {output}")
    for problem in found:
        print(f"  {problem}")
    return 1 if found else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
