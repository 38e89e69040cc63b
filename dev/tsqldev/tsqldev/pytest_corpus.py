"""What a test run sends is in the corpus, and nothing of it is refused: checked at the end of the run.

Every endpoint that starts during the run writes a trace (TSQLDEV_TRACES names the folder). In the corpus must be what the
code under test sends: each batch of another process than the test's (dbt, Airflow, a command), and of the test's own
process each that no test wrote (`tsqldev.authors`). A test may ask and damage whatever it likes; it must only not be
refused by the emulation, unless the setting `tsqldev_corpus_refused` says why. Tests below the folders of
`tsqldev_corpus_exempt` do not count: those of the emulation itself send odd batches on purpose.

With TSQLDEV_CORPUS=add in the environment, what is new is added to the corpus; look at the difference before it is
committed. What is in the corpus, the tests of the corpus show to Microsoft's own parser.
"""

from __future__ import annotations

import json
import os
import time
from bisect import bisect_right
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tsqldev import corpus
from tsqldev.authors import Authors
from tsqldev.session.trace import masked

_SHOWN = 10
#: When each test that ran began and ended, and its file; the file of a test that does not count is empty.
_windows: list[tuple[float, float, str]] = []
#: The same of the test that runs, as far as it is known: the checks below are part of the last one's teardown.
_running: list[tuple[float, str]] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("tsqldev_corpus", "the corpus that batches of tests must be in; no check without it")
    parser.addini("tsqldev_corpus_exempt", "folders whose tests may send anything", type="linelist")
    parser.addini("tsqldev_corpus_refused", "what tests may be refused, each as `what: why`", type="linelist")


def _file(config: pytest.Config) -> Path | None:
    name = str(config.getini("tsqldev_corpus"))
    if not name or "MSSQL_TEST_DSN" in os.environ:
        return None
    return config.rootpath / name


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    began, file = time.time(), _counted_file(item)
    _running[:] = [(began, file)]
    try:
        return (yield)
    finally:
        _windows.append((began, time.time(), file))


def _counted_file(item: pytest.Item) -> str:
    root = item.config.rootpath
    if any(item.path.is_relative_to(root / folder) for folder in item.config.getini("tsqldev_corpus_exempt")):
        return ""
    return os.path.relpath(item.path, root)


@pytest.fixture(scope="session", autouse=True)
def traced_batches(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Made before and ended after all other fixtures of the session: its failure is an error of the last test."""
    known = _file(request.config)
    if known is None:
        yield
        return
    folder = tmp_path_factory.mktemp("traces")
    before = os.environ.get("TSQLDEV_TRACES")
    os.environ["TSQLDEV_TRACES"] = str(folder)
    root = request.config.rootpath
    authors = Authors(root, [root / name for name in request.config.getini("testpaths")])
    with authors.watching():
        yield
    if before is None:
        del os.environ["TSQLDEV_TRACES"]
    else:
        os.environ["TSQLDEV_TRACES"] = before
    found = _Sent([*_windows, *((began, time.time(), file) for began, file in _running)], authors)
    found.read(sorted(folder.glob("*.trace")))
    unseen = found.missing(known)
    if os.environ.get("TSQLDEV_CORPUS") == "add" and unseen:
        corpus.add(known, unseen)
        unseen = []
    expected = {line.partition(": ")[0] for line in request.config.getini("tsqldev_corpus_refused")}
    problems = [
        f"-- not in the corpus, sent in {entry['file']} by {entry['program']}:\n{entry['text']}" for entry in unseen
    ]
    problems += [
        f"-- refused by the emulation in {file}: {what}"
        for what, file in sorted(found.refused.items())
        if corpus.refusal(what) not in expected
    ]
    if problems:
        pytest.fail(_advice(problems, sorted({entry["file"] for entry in unseen})), pytrace=False)


def _advice(problems: list[str], files: list[str]) -> str:
    advice = [f"{len(problems)} in all. What is refused on purpose, tsqldev_corpus_refused names and says why."]
    if files:
        advice.append(
            "Nothing was added to the corpus. Look whether SQL Server would take each text as it stands; if so, add them, "
            f"look at the difference, and commit it:\n\n    make corpus ARGS='{' '.join(files)}'"
        )
    return "\n\n".join([*problems[:_SHOWN], *advice])


@dataclass
class _Sent:
    """What clients sent and were refused during the tests that count."""

    windows: list[tuple[float, float, str]]
    authors: Authors
    #: Each text that must be in the corpus, with the program that sent it and a test file during which it did.
    entries: dict[str, dict[str, str]] = field(default_factory=dict)
    #: The same for texts of this process whose author may still be a test.
    own: dict[str, dict[str, str]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def read(self, traces: Iterable[Path]) -> None:
        begins = [began for began, _, _ in self.windows]
        process, tests = os.getpid(), {masked(text) for text in self.authors.written_by_tests()}
        for trace in traces:
            with trace.open(encoding="utf-8") as lines:
                for line in lines:
                    record = json.loads(line)
                    text, own = record["text"], record.get("client") == process
                    if text in self.entries or (own and (text in tests or text in self.own)) or not text.strip():
                        continue
                    at = bisect_right(begins, record["at"] + 0.001) - 1
                    if at < 0 or record["at"] > self.windows[at][1] or not (file := self.windows[at][2]):
                        continue
                    if record["kind"] == "refused":
                        self.refused.setdefault(text, file)
                        continue
                    entry = {"program": record["program"].split("/")[0], "text": text, "file": file}
                    (self.own if own else self.entries)[text] = entry

    def missing(self, known: Path) -> list[dict[str, str]]:
        """One example of each shape that the corpus lacks and that is not a test's alone."""
        unseen = corpus.missing(known, [*self.entries.values(), *self.own.values()])
        shapes = corpus.Shapes()
        tests = {shapes.of(masked(text)) for text in self.authors.written_by_tests()} if unseen else set()
        tests -= {shapes.of(masked(text)) for text in self.authors.written_by_others()} if tests else set()
        return [e for e in unseen if e["text"] in self.entries or shapes.of(e["text"]) not in tests]
