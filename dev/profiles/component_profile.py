"""Runs one component profile and writes summary.json and junit.xml: what was run, where, and how each case ended.

    python dev/profiles/component_profile.py --profile gate --output-dir DIR

Without MSSQL_TEST_DSN the embedded endpoint is started; with it the same cases run on that SQL Server, which should be
a disposable one: the gate profile installs a LOGON trigger there, and takes it off again. A missing, skipped, failed,
repeated or foreign case makes the result FAIL. So does a source tree with uncommitted changes, unless --working-tree
says that it is meant: the receipt then says so too, and unlocks nonproduction only. `dponectl ledger record-profile DIR`
records a green gate profile. Driver messages are not kept: they may hold what does not belong in an artefact.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import tomllib
import xml.etree.ElementTree as ET  # the file is pytest's own
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROFILES = Path(__file__).with_name("profiles.toml")

# The provider of this checkout, which pytest finds first as well, and not one that is installed somewhere.
sys.path.insert(0, str(ROOT))

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
    """What a test run left: its cases, and on which server; None when the server was never asked."""

    cases: Sequence[RanCase]
    engine: gate_profile.Engine | None


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
        outcome = next((tags[child.tag] for child in item if child.tag in tags), "passed")
        node = f"{item.get('classname', '').replace('.', '/')}.py::{item.get('name')}"
        cases.append(RanCase(node=node, outcome=outcome, seconds=item.get("time", "0")))
    text, version = properties.get("engine_version_text"), properties.get("engine_product_version")
    try:
        engine = gate_profile.engine_of(text, version) if text and version else None
    except AdmissionRefused:
        engine = None
    return Ran(cases=cases, engine=engine)


def problems(
    profile: str, nodes: Mapping[str, str], ran: Ran, source: gate_profile.Source, *, dirty: bool
) -> list[str]:
    """Everything that keeps the result from being green. ``dirty``: a tree with uncommitted changes is meant."""
    found = [f"foreign test: {case.node}" for case in ran.cases if case.node not in nodes.values()]
    found += gate_profile.case_problems(profile, named(nodes, ran))
    if ran.engine is None:
        found.append("the engine was not recorded")
    if not source.clean and not dirty:
        found.append("the source tree has uncommitted changes or no commit; --working-tree says that this is meant")
    return found


def named(nodes: Mapping[str, str], ran: Ran) -> tuple[gate_profile.Case, ...]:
    """What ran, under the product's names, in the order of a receipt."""
    names = {node: name for name, node in nodes.items()}
    known = (case for case in ran.cases if case.node in names)
    return tuple(sorted(gate_profile.Case(name=names[case.node], outcome=case.outcome) for case in known))


def source_now() -> gate_profile.Source:
    """HEAD, and whether the tree is exactly that. Without git nobody can say."""
    try:
        commit = _git("rev-parse", "HEAD")
        clean = not _git("status", "--porcelain")
    except (OSError, subprocess.CalledProcessError):
        return gate_profile.Source(commit=None, clean=False)
    return gate_profile.Source(commit=commit, clean=clean)


def _git(*arguments: str) -> str:
    finished = subprocess.run(["git", "-C", str(ROOT), *arguments], check=True, capture_output=True, text=True)
    return finished.stdout.strip()


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
        "cases": [
            {"name": names.get(case.node), "node": case.node, "outcome": case.outcome, "seconds": case.seconds}
            for case in ordered
        ],
        "junit_sha256": canonical.sha256_text(junit),
        "receipt_sha256": None if made is None else made.sha256,
    }
    (output / SUMMARY).write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")


def run(cases: Sequence[str]) -> Ran:
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        paths = [str(PROFILES.parent), os.environ.get("PYTHONPATH", "")]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "component_profile_plugin"]
        command += [f"--junitxml={report}", *cases]
        # In a process group of its own: an interrupt reaches it once, and it takes its server down with it.
        process = subprocess.Popen(command, cwd=ROOT, env=environment, process_group=0)
        try:
            process.wait()
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            process.wait()
            raise
        return read_report(report) if report.exists() else Ran(cases=(), engine=None)


def is_known(folder: Path, source: gate_profile.Source) -> bool:
    """Whether a folder holds a green gate profile of exactly this clean source."""
    try:
        known = read_profile_folder(folder)
    except ConfigurationError:
        return False
    return known.green and source.clean and (known.source, known.product_version) == (source, __version__)


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
    before = source_now()
    if given.unless is not None and is_known(given.unless, before):
        print(f"{given.profile}: PASS already, in {given.unless}")
        return 0
    output.mkdir(parents=True)
    ran = run(list(nodes.values()))
    # Clean is what was so from the first case to the last.
    source = gate_profile.Source(commit=before.commit, clean=before.clean and source_now() == before)
    found = problems(given.profile, nodes, ran, source, dirty=given.working_tree)
    write(output, given.profile, profile["evidence"], nodes, ran, source, found)
    print(f"{given.profile}: {'FAIL' if found else 'PASS'} on {ran.engine or 'an unknown engine'}; see {output}")
    for problem in found:
        print(f"  {problem}")
    return 1 if found else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
