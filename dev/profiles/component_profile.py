"""Runs one component profile and writes summary.json and junit.xml: what was run, where, and how each case ended.

    python dev/profiles/component_profile.py --profile gate --output-dir DIR

Without MSSQL_TEST_DSN the embedded endpoint is started and the evidence says "emulation"; with it the same cases run on
that SQL Server. A missing, skipped, failed, repeated or foreign case makes the result FAIL, and so does a source tree
with uncommitted changes. Driver messages are not kept: they may hold what does not belong in an artefact.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import tomllib
import xml.etree.ElementTree as ET  # the file is pytest's own
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROFILES = Path(__file__).with_name("profiles.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case that ran: its node id and its outcome (passed, failed, error, skipped)."""

    node: str
    outcome: str
    seconds: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a test run left: its cases, and on which engine."""

    cases: Sequence[Case]
    engine_kind: str
    engine_version: str


def read_report(path: Path) -> Ran:
    """Pytest's junit file."""
    suite = ET.parse(path).getroot().find("testsuite")  # the file is pytest's own
    assert suite is not None
    properties = {item.get("name"): item.get("value", "") for item in suite.iter("property")}
    cases = []
    for item in suite.iter("testcase"):
        outcome = next((child.tag for child in item if child.tag in ("failure", "error", "skipped")), "passed")
        node = f"{item.get('classname', '').replace('.', '/')}.py::{item.get('name')}"
        cases.append(
            Case(node=node, outcome="failed" if outcome == "failure" else outcome, seconds=item.get("time", "0"))
        )
    return Ran(
        cases=cases,
        engine_kind=properties.get("engine_kind", "unknown"),
        engine_version=properties.get("engine_version", "unknown"),
    )


def problems(required: Sequence[str], ran: Ran, *, source_clean: bool) -> list[str]:
    """Everything that keeps the result from being green."""
    seen = Counter(case.node for case in ran.cases)
    found = [f"missing: {node}" for node in required if node not in seen]
    found += [f"foreign: {node}" for node in seen if node not in required]
    found += [f"repeated: {node}" for node, count in seen.items() if count > 1]
    found += [f"{case.outcome}: {case.node}" for case in ran.cases if case.outcome != "passed"]
    if len(set(required)) != len(required):
        found.append("the profile names a case twice")
    if ran.engine_kind == "unknown":
        found.append("the engine was not recorded")
    if not source_clean:
        found.append("the source tree has uncommitted changes")
    return found


def git(*arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(ROOT), *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


def write(output: Path, profile: str, evidence: str, ran: Ran, found: Sequence[str]) -> Mapping[str, object]:
    """The two artefacts. Outcomes only."""
    summary = {
        "schema": "dpone.component-profile-result.v1",
        "profile": profile,
        "evidence": evidence,
        "result": "FAIL" if found else "PASS",
        "problems": list(found),
        "source_commit": git("rev-parse", "HEAD"),
        "engine": {"kind": ran.engine_kind, "version": ran.engine_version},
        "cases": [{"node": case.node, "outcome": case.outcome, "seconds": case.seconds} for case in ran.cases],
    }
    (output / "summary.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    suite = ET.Element("testsuite", name=profile, tests=str(len(ran.cases)))
    for case in ran.cases:
        item = ET.SubElement(suite, "testcase", name=case.node, time=case.seconds)
        if case.outcome != "passed":
            ET.SubElement(item, "failure" if case.outcome == "failed" else case.outcome)
    ET.ElementTree(suite).write(output / "junit.xml", encoding="utf-8", xml_declaration=True)
    return summary


def run(cases: Sequence[str]) -> Ran:
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(PROFILES.parent), os.environ.get("PYTHONPATH", "")])
        }
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "component_profile_plugin",
            f"--junitxml={report}",
            *cases,
        ]
        subprocess.run(command, cwd=ROOT, env=environment, check=False)
        if not report.exists():
            return Ran(cases=(), engine_kind="unknown", engine_version="unknown")
        return read_report(report)


def main(arguments: Sequence[str] | None = None) -> int:
    profiles = tomllib.loads(PROFILES.read_text(encoding="utf-8"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--profile", choices=sorted(profiles), default="store")
    parser.add_argument("--output-dir", type=Path, required=True)
    given = parser.parse_args(arguments)
    profile = profiles[given.profile]
    if "unavailable" in profile:
        print(f"{given.profile}: not run: {profile['unavailable']}.", file=sys.stderr)
        return 2
    output: Path = given.output_dir.resolve()
    if output.exists() or output.is_relative_to(ROOT):
        print("--output-dir must be a new directory outside of the checkout.", file=sys.stderr)
        return 2
    output.mkdir(parents=True)
    ran = run(profile["cases"])
    found = problems(profile["cases"], ran, source_clean=not git("status", "--porcelain", "--untracked-files=no"))
    summary = write(output, given.profile, profile["evidence"], ran, found)
    print(f"{given.profile}: {summary['result']} on {ran.engine_kind} ({ran.engine_version}); see {output}")
    for problem in found:
        print(f"  {problem}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
