"""Mutation testing of the contracts and of the ledger: does a test notice when a line means something else?

    python dev/campaigns/mutation.py FOLDER [--share PERCENT] [--children N] [--report FILE]

mutmut changes one thing at a time in a clone of HEAD below FOLDER and runs the fast tests that reach the changed
function. Without `--share` all mutants run, which takes hours; with it a sample of each module, drawn with a fixed seed,
so that the same commit has the same sample. Started again in the same FOLDER it goes on. The report (JSON, by default
docs/campaigns/mutation.json) has the score of each module and names every survivor; docs/campaigns.md says what
became of them. Needs the extra `mutation` of pyproject.toml.

Sentences for people (happened, not_done, check, avoid) are not mutated: no test should repeat them.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import random
import re
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
REPORT = ROOT / "docs" / "campaigns" / "mutation.json"
SEED = 20261129
LAYERS = ("contracts", "ledger")
#: Tests that list the functions of a module see the mutants as functions.
NOT_THESE = (
    "tests/unit/contracts/test_bad_input.py::test_every_function_has_a_good_call",
    "tests/unit/contracts/test_bad_input.py::test_a_function_with_one_bad_argument",
)
CONFIGURATION = f"""
[tool.mutmut]
source_paths = ["airflow_provider_dpone"]
only_mutate = {[f"airflow_provider_dpone/{layer}/*.py" for layer in LAYERS]}
also_copy = ["dev", "examples", "docs", "README.md", "dags_examples", "Makefile"]
pytest_add_cli_args_test_selection = {[f"tests/unit/{layer}" for layer in LAYERS]}
pytest_add_cli_args = {["-p", "no:cacheprovider", *(part for test in NOT_THESE for part in ("--deselect", test))]}
do_not_mutate_patterns = ['^\\s*(happened|not_done|check|avoid)=', '^\\s*f?"[^"]* [^"]*"']
"""
#: mutmut notes how the tests of a mutant ended.
_ENDINGS = {
    0: "survived",
    1: "killed",
    3: "killed",
    5: "no tests",
    33: "no tests",
    **dict.fromkeys((36, 24, -24, 152, 255), "timeout"),
}
#: A sentence, or what stands in its place in a mutant.
_SENTENCE = re.compile(r'(?:happened=)?(?:f?"[^"\n]* [^"\n]*"|\bhappened=None)')
#: Neither ran nor ended: the run was stopped.
_STOPPED = (None, 2)


def prepare(folder: Path) -> Path:
    clone = folder / "clone"
    if not clone.exists():
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        with (clone / "pyproject.toml").open("a", encoding="utf-8") as settings:
            settings.write(CONFIGURATION)
    return clone


def mutmut(clone: Path, children: int, names: list[str]) -> None:
    """Failing mutants are what it is for; what matters is in its notes."""
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", str(children), *names]
    with (clone.parent / "log").open("ab") as log:
        subprocess.run(command, cwd=clone, stdout=log, stderr=log, check=False)


def notes(clone: Path) -> dict[str, dict[str, int | None]]:
    """The mutants of each module, and how the tests of each one ended; None for one that did not run."""
    found: dict[str, dict[str, int | None]] = {}
    package = clone / "mutants" / "airflow_provider_dpone"
    for layer in LAYERS:
        for path in sorted((package / layer).rglob("*.meta")):
            endings = json.loads(path.read_text())["exit_code_by_key"]
            if endings:
                found[str(path.relative_to(package)).removesuffix(".meta")] = endings
    return found


def sample(mutants: dict[str, dict[str, int | None]], share: float) -> list[str]:
    """So many percent of each module, at least five, the same ones each time; a larger share contains a smaller one."""
    chosen: list[str] = []
    for module, endings in mutants.items():
        names = sorted(endings)
        count = min(len(names), max(5, round(len(names) * share / 100)))
        chosen += random.Random(f"{SEED} {module}").sample(names, count)  # a sample, not a secret
    return chosen


def only_words(clone: Path, name: str) -> bool:
    """Whether the mutant changes a sentence for people that stands in the middle of a line."""
    module, _, mangled = name.rpartition(".")
    text = (clone / "mutants" / module.replace(".", "/")).with_suffix(".py").read_text(encoding="utf-8")
    found = [
        re.search(rf"^( *)def {re.escape(each)}\(.*?(?=^\1(?:def|@)|^\S|\Z)", text, re.S | re.M)
        for each in (mangled, re.sub(r"__mutmut_\d+$", "__mutmut_orig", mangled))
    ]
    # Every literal with a blank in it is a sentence; without them, and without the name, nothing must differ.
    mutant, original = (
        re.sub(r"__mutmut_\w+", "", _SENTENCE.sub("", each.group(0))) if each is not None else str(number)
        for number, each in enumerate(found)
    )
    return mutant == original


def report(clone: Path, names: list[str]) -> dict[str, Any]:
    head = subprocess.run(["git", "-C", str(clone), "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    modules: dict[str, Any] = {}
    by_ending: dict[str, list[str]] = {}
    wanted = set(names)
    for module, endings in notes(clone).items():
        counted: Counter[str] = Counter()
        for name, code in sorted(endings.items()):
            if code in _STOPPED or name not in wanted:
                continue
            ending = _ENDINGS.get(code, "suspicious")
            if ending == "survived" and only_words(clone, name):
                ending = "only words"
            counted[ending] += 1
            by_ending.setdefault(ending, []).append(name)
        modules[module] = {"mutants": len(endings), **dict(sorted(counted.items()))}
    totals = {ending: len(found) for ending, found in sorted(by_ending.items())}
    noticed = totals.get("killed", 0) + totals.get("timeout", 0)
    reached = noticed + totals.get("survived", 0) + totals.get("suspicious", 0)
    return {
        "commit": head.stdout.strip(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{os.cpu_count()} x {platform.machine()}, Python {platform.python_version()}",
        "seed": SEED,
        "mutants": sum(counts["mutants"] for counts in modules.values()),
        "chosen": len(names),
        "endings": totals,
        "reached by fast tests": reached,
        "noticed": noticed,
        "score": round(100 * noticed / reached, 1) if reached else None,
        "modules": modules,
        "survived": by_ending.get("survived", []) + by_ending.get("suspicious", []),
        "not reached by fast tests": sorted({name.rsplit("__mutmut_", 1)[0] for name in by_ending.get("no tests", [])}),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a new folder, or one to go on in")
    parser.add_argument("--share", type=float, default=100.0, help="percent of each module's mutants")
    parser.add_argument("--children", type=int, default=1, help="mutants at a time")
    parser.add_argument("--report", type=Path, default=REPORT)
    parser.add_argument("--only-report", action="store_true", help="what has run so far; run nothing")
    options = parser.parse_args()
    if importlib.util.find_spec("mutmut") is None:
        parser.error("mutmut is not installed: it is the extra `mutation` of this project.")
    options.folder.mkdir(parents=True, exist_ok=True)
    clone = prepare(options.folder)
    if not notes(clone):
        # Makes all mutants and finds out which test reaches which function; these few run on the way.
        mutmut(clone, options.children, ["airflow_provider_dpone.contracts.operation*"])
    names = sample(notes(clone), options.share)
    if not names:
        parser.error(f"mutmut made no mutants: see {clone.parent / 'log'}")
    if not options.only_report:
        mutmut(clone, options.children, names)
    found = report(clone, names)
    options.report.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(f"{found['noticed']} of {found['reached by fast tests']} noticed: {found['score']} %; {found['endings']}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
