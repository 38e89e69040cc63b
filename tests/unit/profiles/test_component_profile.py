"""A profile is green only when exactly its cases ran, once each, and passed."""

from __future__ import annotations

import importlib.util
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("component_profile", ROOT / "dev/profiles/component_profile.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["component_profile"] = module
    spec.loader.exec_module(module)
    return module


def ran(tool: ModuleType, *outcomes: tuple[str, str], engine: str = "emulation") -> object:
    cases = [tool.Case(node=node, outcome=outcome, seconds="0.1") for node, outcome in outcomes]
    return tool.Ran(cases=cases, engine_kind=engine, engine_version="v")


def test_exactly_the_required_cases_pass(tool: ModuleType) -> None:
    assert tool.problems(["a", "b"], ran(tool, ("a", "passed"), ("b", "passed")), source_clean=True) == []


@pytest.mark.parametrize(
    ("outcomes", "said"),
    [
        ([("a", "passed")], "missing: b"),
        ([("a", "passed"), ("b", "skipped")], "skipped: b"),
        ([("a", "passed"), ("b", "failed")], "failed: b"),
        ([("a", "passed"), ("b", "passed"), ("b", "passed")], "repeated: b"),
        ([("a", "passed"), ("b", "passed"), ("c", "passed")], "foreign: c"),
    ],
)
def test_anything_else_is_said(tool: ModuleType, outcomes: list[tuple[str, str]], said: str) -> None:
    assert said in tool.problems(["a", "b"], ran(tool, *outcomes), source_clean=True)


def test_an_unknown_engine_or_an_unclean_source_is_not_green(tool: ModuleType) -> None:
    complete = [("a", "passed")]
    assert tool.problems(["a"], ran(tool, *complete, engine="unknown"), source_clean=True)
    assert tool.problems(["a"], ran(tool, *complete), source_clean=False)


def test_the_profiles_have_their_number_of_cases_and_each_case_exists() -> None:
    profiles = tomllib.loads((ROOT / "dev/profiles/profiles.toml").read_text(encoding="utf-8"))
    assert {name: len(profile.get("cases", ())) for name, profile in profiles.items()} == {
        "store": 7,
        "gate": 16,
        "trust": 0,
        "registration": 0,
    }
    for node in (node for profile in profiles.values() for node in profile.get("cases", ())):
        path, _, name = node.partition("::")
        assert f"def {name.partition('[')[0]}(" in (ROOT / path).read_text(encoding="utf-8")


def test_what_is_not_there_refuses_by_name(
    tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tool.main(["--profile", "trust", "--output-dir", str(tmp_path / "new")]) == 2
    assert "not part of this version" in capsys.readouterr().err
    assert tool.main(["--profile", "gate", "--output-dir", str(tmp_path)]) == 2
    assert tool.main(["--profile", "gate", "--output-dir", str(ROOT / "somewhere")]) == 2
    assert not (ROOT / "somewhere").exists()
