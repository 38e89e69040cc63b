"""What the product and dbt send: it parses, here and with Microsoft's parser."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tsqldev.corpus import Shapes, add, missing, read, shape, traced
from tsqldev.session.split import split
from tsqldev.session.syntax import check_syntax

CORPUS = Path(__file__).with_name("corpus.jsonl")
_ENTRIES = list(read(CORPUS).values())


def test_it_is_not_empty() -> None:
    programs = {entry["program"] for entry in _ENTRIES}
    assert len(_ENTRIES) > 100
    assert programs


@pytest.mark.parametrize("text", [entry["text"] for entry in _ENTRIES], ids=range(len(_ENTRIES)))
def test_each_text_is_cut_and_parsed(text: str) -> None:
    check_syntax(split(text))


def test_each_text_is_t_sql_by_microsofts_parser(tmp_path: Path) -> None:
    parser = Path(sys.executable).parent / "maxdop"
    # Drivers set QUOTED_IDENTIFIER ON when they connect.
    settings = tmp_path / "settings.json"
    settings.write_text('{"initialQuotedIdentifiers": true}', encoding="utf-8")
    refused = []
    # INSERT BULK announces a bulk load on the wire; the parser knows it without the options that drivers send.
    for entry in (entry for entry in _ENTRIES if not entry["text"].startswith("INSERT BULK ")):
        result = subprocess.run(
            [str(parser), "--parser-version", "2022", "--config", str(settings)],
            input=entry["text"],
            text=True,
            capture_output=True,
            timeout=60,
            check=False,
        )
        if result.returncode:
            refused.append((entry["text"], result.stderr))
    assert refused == []


def test_no_password_is_in_it() -> None:
    for entry in _ENTRIES:
        for word in entry["text"].upper().split("PASSWORD")[1:]:
            value = word.lstrip(" =")
            assert not value.startswith(("'", "N'", "0X")) or "***" in value[:8], entry["text"][:80]


def test_shapes_ignore_what_differs_from_run_to_run() -> None:
    first = "/* run 1 */ SELECT [a_64706f6e65] FROM t12 WHERE x = N'one' AND y = 0x01AB -- end"
    second = "select  [a_0123456789]\nfrom t7 where x = N'two' and y = 0xFF"
    assert shape(first) == shape(second)
    assert shape("SELECT a FROM t") != shape("SELECT b FROM t")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("DROP TABLE [raw].[pläne ]]'\";%--__dpone_1a2b3c4d]", 'DROP TABLE "raw".[flights]'),
        ("EXEC p @a = ?", "EXEC p @a = @P1"),
        ("SELECT a FROM t WHERE b IN (1, 2, 3)", "SELECT a FROM t WHERE b IN (1, 2)"),
        ("INSERT [t] ([a], [b]) VALUES (@P1, NULLIF(@P2, '')), (@P3, NULLIF(@P4, ''))",
         "INSERT [t] ([a], [b], [c]) VALUES (@P1, NULLIF(@P2, '')), (@P3, NULLIF(@P4, '')), (@P5, NULLIF(@P6, ''))"),
    ],
)  # fmt: skip
def test_shapes_ignore_names_in_brackets_and_the_length_of_lists(one: str, other: str) -> None:
    assert shape(one) == shape(other)


@pytest.mark.parametrize(
    "text", ["SELECT 12, 0x12 FROM t1", "SELECT deadbeef, 1234567", "SELECT N'a1b2c3d4', [é 123], sha256 -- 99"]
)
def test_many_texts_have_the_shapes_that_each_has(text: str) -> None:
    shapes = Shapes()
    for changed in (text, text.replace("1", "777"), text.replace("2", "abcdef12"), text):
        assert shapes.of(changed) == shape(changed)


def test_a_new_shape_is_missing_until_it_is_added(tmp_path: Path) -> None:
    trace, corpus = tmp_path / "trace.jsonl", tmp_path / "corpus.jsonl"
    trace.write_text("".join(json.dumps({"program": "p", "text": f"SELECT {n} FROM t"}) + "\n" for n in range(3)))
    assert [entry["text"] for entry in missing(corpus, traced([trace]))] == ["SELECT 0 FROM t"]
    assert add(corpus, traced([trace])) == 1
    assert missing(corpus, traced([trace])) == []
