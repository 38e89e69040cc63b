"""A test run fails at its end where a test sent what the corpus does not hold, or was refused something."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

_TEST = """
import json, os, time
from pathlib import Path

def test_sends():
    Path(os.environ["TSQLDEV_TRACES"], "1.trace").write_text(
        json.dumps({{"at": time.time(), "kind": "{kind}", "program": "p", "text": "SELECT {text} FROM t"}}) + "\\n")
"""


def _run(folder: Path, kind: str, text: str, below: str, **environment: str) -> tuple[int, str]:
    (folder / "pytest.ini").write_text("[pytest]\ntsqldev_corpus = corpus.jsonl\ntsqldev_corpus_exempt = odd\n")
    (folder / "corpus.jsonl").write_text(json.dumps({"program": "p", "text": "SELECT known FROM t"}) + "\n")
    test = folder / below / "test_one.py"
    test.parent.mkdir(exist_ok=True)
    test.write_text(_TEST.format(kind=kind, text=text))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "TSQLDEV", "MSSQL"))}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test)]
    done = subprocess.run(
        command, cwd=folder, env=kept | environment, capture_output=True, text=True, timeout=120, check=False
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("kind", "text", "below", "code"),
    [
        ("batch", "known", "plain", 0),
        ("batch", "unknown", "plain", 1),
        ("batch", "unknown", "odd", 0),
        ("refused", "known", "plain", 1),
        ("refused", "known", "odd", 0),
    ],
)
def test_what_is_new_or_refused_fails_the_run(tmp_path: Path, kind: str, text: str, below: str, code: int) -> None:
    returned, output = _run(tmp_path, kind, text, below)
    assert returned == code, output
    if code:
        assert f"SELECT {text} FROM t" in output
    assert "known FROM t" in (tmp_path / "corpus.jsonl").read_text()


def test_what_is_new_can_be_added(tmp_path: Path) -> None:
    assert _run(tmp_path, "batch", "unknown", "plain", TSQLDEV_CORPUS="add")[0] == 0
    assert len((tmp_path / "corpus.jsonl").read_text().splitlines()) == 2
    assert _run(tmp_path, "refused", "known", "plain", TSQLDEV_CORPUS="add")[0] == 1
