"""The corpus: every shape of batch that clients of this project send, recorded through the trace.

A shape is a text without what differs from run to run: literals, comments, generated names. Of each shape one example is
kept. `python -m tsqldev.corpus add CORPUS TRACE...` adds the shapes of traces; `check` lists those that are not in it
and fails if there are any, so that a new batch is looked at (and shown to Microsoft's parser) before it is relied on.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tsqldev.errors import SqlError
from tsqldev.session.lexer import BINARY, END, NUMBER, QUOTED, STRING, WORD, tokens

_GENERATED = re.compile(r"[0-9a-f]{6,}|\d+", re.IGNORECASE)


def shape(text: str) -> str:
    """The text with each literal, generated name and blank made the same; the text itself where it has no tokens."""
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
            parts.append(f"[{_GENERATED.sub('#', token.name.lower())}]")
        elif token.kind == WORD:
            parts.append(_GENERATED.sub("#", token.text.lower()))
        elif token.kind != END:
            parts.append(token.text.lower())
    return " ".join(parts)


def read(path: Path) -> dict[str, dict[str, str]]:
    """The entries of a corpus, by shape."""
    if not path.exists():
        return {}
    entries = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line)
    return {shape(entry["text"]): entry for entry in entries}


def traced(path: Path) -> Iterator[dict[str, str]]:
    """The texts of a trace: who sent it, and what. Calls without a text of their own are left out."""
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record["text"].strip() and record.get("kind") != "refused":
            yield {"program": record["program"].split("/")[0], "text": record["text"]}


def add(corpus: Path, traces: Sequence[Path]) -> int:
    """Add what is new; answers how many shapes that were. Several processes may add at once."""
    with corpus.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        known = read(corpus)
        before = len(known)
        for trace in traces:
            for entry in traced(trace):
                known.setdefault(shape(entry["text"]), entry)
        lines = [json.dumps(known[key], ensure_ascii=False, sort_keys=True) for key in sorted(known)]
        file.truncate(0)
        file.write("".join(f"{line}\n" for line in lines))
    return len(known) - before


def missing(corpus: Path, traces: Sequence[Path]) -> list[dict[str, str]]:
    """One example of each shape in the traces that the corpus lacks."""
    known = read(corpus)
    found: dict[str, dict[str, str]] = {}
    for trace in traces:
        for entry in traced(trace):
            key = shape(entry["text"])
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
        print(f"{add(options.corpus, options.trace)} new shapes")
        return 0
    unseen = missing(options.corpus, options.trace)
    for entry in unseen:
        print(f"-- {entry['program']}\n{entry['text']}\n", file=sys.stderr)
    print(f"{len(unseen)} shapes are not in the corpus")
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main())
