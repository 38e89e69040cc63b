"""The corpus: every shape of batch that the product, dbt and the transfers send, recorded through the trace.

A shape is a text without what differs from run to run and from test to test: literals, comments, names in brackets or
quotes, generated parts of other names, the numbers of parameters, how many like items a list has and how many like
statements follow one another. Of each shape one example is kept. `python -m tsqldev.corpus add CORPUS TRACE...` adds the
shapes of traces; `check` lists those that are not in it and fails if there are any, so that a new batch is looked at (and
shown to Microsoft's parser) before it is relied on.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from tsqldev.errors import SqlError
from tsqldev.session.lexer import BINARY, END, NUMBER, QUOTED, STRING, VARIABLE, WORD, tokens

_GENERATED = re.compile(r"[0-9a-f]{6,}|\d+", re.IGNORECASE)
_PARAMETER = re.compile(r"@p\d+", re.IGNORECASE)
_LIKE_ITEMS = re.compile(r"(?<!\S)(\S+(?: \S+){0,11}?)(?: , \1)+(?!\S)")
_LIST = r"\1 , .."


def shape(text: str) -> str:
    """What is the same in all batches that differ in values, names and lengths alone; without tokens, the text itself."""
    try:
        found = tokens(text)
    except SqlError:
        return text
    parts = []
    for token in found:
        if token.kind == STRING:
            parts.append("''")
        elif token.kind in (NUMBER, BINARY):
            parts.append("0")
        elif token.kind == QUOTED:
            parts.append("[]")
        elif token.kind == WORD:
            parts.append(_GENERATED.sub("#", token.text.lower()))
        elif token.kind == VARIABLE and _PARAMETER.fullmatch(token.text):
            parts.append("?")
        elif token.kind != END:
            parts.append(token.text.lower())
    joined, before = " ".join(parts), ""
    while joined != before:
        joined, before = _LIKE_ITEMS.sub(_LIST, joined), joined
    return " ; ".join(statement for statement, _ in groupby(joined.removesuffix(" ;").split(" ; ")))


class Shapes:
    """Shapes of many texts. Texts that differ in numbers and generated names alone are cut into tokens once."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def of(self, text: str) -> str:
        key = _GENERATED.sub(_kind, text)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = shape(text)
        return found


def _kind(match: re.Match[str]) -> str:
    """A stand-in of the same kind of token: all digits, a letter first, or digits before letters."""
    generated = match.group()
    return "0" if generated.isdecimal() else "0a0" if generated[0].isdecimal() else "a0"


def read(path: Path) -> dict[str, dict[str, str]]:
    """The entries of a corpus, by shape."""
    if not path.exists():
        return {}
    entries = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line)
    return {shape(entry["text"]): entry for entry in entries}


def refusal(message: str) -> str:
    """What error 40000 says is not emulated."""
    return message.rpartition("Not supported by this emulation of SQL Server: ")[2].removesuffix(".")


def traced(paths: Iterable[Path]) -> Iterator[dict[str, str]]:
    """The texts of traces: who sent each, and what. Calls without a text of their own are left out."""
    for path in paths:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                record = json.loads(line)
                if record["text"].strip() and record.get("kind") != "refused":
                    yield {"program": record["program"].split("/")[0], "text": record["text"]}


def add(corpus: Path, entries: Iterable[dict[str, str]]) -> int:
    """Add what is new; answers how many shapes that were. Several processes may add at once."""
    shapes = Shapes()
    with corpus.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        known = read(corpus)
        before = len(known)
        for entry in entries:
            known.setdefault(shapes.of(entry["text"]), {name: entry[name] for name in ("program", "text")})
        lines = [json.dumps(known[key], ensure_ascii=False, sort_keys=True) for key in sorted(known)]
        file.truncate(0)
        file.write("".join(f"{line}\n" for line in lines))
    return len(known) - before


def missing(corpus: Path, entries: Iterable[dict[str, str]]) -> list[dict[str, str]]:
    """One example of each shape in the entries that the corpus lacks."""
    known, shapes = read(corpus), Shapes()
    found: dict[str, dict[str, str]] = {}
    for entry in entries:
        key = shapes.of(entry["text"])
        if key not in known:
            found.setdefault(key, entry)
    return list(found.values())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tsqldev.corpus", description=__doc__)
    parser.add_argument("command", choices=("add", "check"))
    parser.add_argument("corpus", type=Path)
    parser.add_argument("trace", type=Path, nargs="+")
    options = parser.parse_args(arguments)
    if options.command == "add":
        print(f"{add(options.corpus, traced(options.trace))} new shapes")
        return 0
    unseen = missing(options.corpus, traced(options.trace))
    for entry in unseen:
        print(f"-- {entry['program']}\n{entry['text']}\n", file=sys.stderr)
    print(f"{len(unseen)} shapes are not in the corpus")
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main())
