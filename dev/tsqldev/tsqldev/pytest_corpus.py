"""What a test run sends is in the corpus, and nothing of it is refused: checked at the end of the run.

Every endpoint that starts during the run writes a trace (TSQLDEV_TRACES names the folder). Tests outside of the folders
that the setting `tsqldev_corpus_exempt` names count: tests of the emulation itself send odd batches on purpose. With
TSQLDEV_CORPUS=add in the environment, what is new is added to the corpus instead; look at the difference before it is
committed. What is in the corpus, the tests of the corpus show to Microsoft's own parser.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path

import pytest

from tsqldev import corpus

_SHOWN = 10
_windows: list[tuple[float, float]] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("tsqldev_corpus", "the corpus that batches of tests must be in; no check without it")
    parser.addini("tsqldev_corpus_exempt", "folders whose tests may send anything", type="linelist")


def _file(config: pytest.Config) -> Path | None:
    name = str(config.getini("tsqldev_corpus"))
    if not name or "MSSQL_TEST_DSN" in os.environ:
        return None
    return config.rootpath / name


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    exempt = [item.config.rootpath / folder for folder in item.config.getini("tsqldev_corpus_exempt")]
    began = time.time()
    try:
        return (yield)
    finally:
        if not any(item.path.is_relative_to(folder) for folder in exempt):
            _windows.append((began, time.time()))


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
    began = time.time()
    yield
    if before is None:
        del os.environ["TSQLDEV_TRACES"]
    else:
        os.environ["TSQLDEV_TRACES"] = before
    # The last test has not ended for the protocol: its own teardown is what runs here.
    windows = [*_windows, *_open_window(request, began)]
    counted = folder / "counted.jsonl"
    refused = _select(sorted(folder.glob("*.trace")), windows, counted)
    if os.environ.get("TSQLDEV_CORPUS") == "add":
        corpus.add(known, [counted])
    unseen = corpus.missing(known, [counted])
    problems = [f"-- not in the corpus, sent by {entry['program']}:\n{entry['text']}" for entry in unseen]
    problems += [f"-- refused by the emulation: {what}" for what in sorted(refused)]
    if problems:
        pytest.fail(
            "\n\n".join(problems[:_SHOWN])
            + f"\n\n{len(problems)} in all. Nothing was added. Look whether SQL Server would take each text as it stands; then "
            f"run the same tests again with TSQLDEV_CORPUS=add, or: python -m tsqldev.corpus add {known} {counted}",
            pytrace=False,
        )


def _open_window(request: pytest.FixtureRequest, began: float) -> list[tuple[float, float]]:
    ended = max((end for _, end in _windows), default=began)
    items = request.session.items
    exempt = [request.config.rootpath / folder for folder in request.config.getini("tsqldev_corpus_exempt")]
    if items and any(items[-1].path.is_relative_to(folder) for folder in exempt):
        return []
    return [(ended, time.time())]


def _select(traces: Iterable[Path], windows: list[tuple[float, float]], counted: Path) -> set[str]:
    """Write what was sent within the windows to `counted`; answers what was refused within them."""
    refused: set[str] = set()
    with counted.open("w", encoding="utf-8") as output:
        for trace in traces:
            for line in trace.read_text(encoding="utf-8").splitlines():
                record = json.loads(line)
                if not any(began <= record["at"] + 0.001 and record["at"] <= ended for began, ended in windows):
                    continue
                if record["kind"] == "refused":
                    refused.add(record["text"])
                else:
                    output.write(line + "\n")
    return refused
