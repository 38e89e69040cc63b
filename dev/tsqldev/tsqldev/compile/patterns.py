"""LIKE patterns with %, _, [sets], [^sets] and ESCAPE, as PostgreSQL regular expressions."""

from __future__ import annotations

import re

_SPECIAL = frozenset(".^$*+?()[]{}|\\")


def like_regex(pattern: str, escape: str | None, *, trailing_blanks: bool) -> str | None:
    """The expression that matches what the pattern matches; None if nothing can.

    `trailing_blanks`: blanks at the end of the text do not count (neither side is Unicode).
    """
    out = ["^"]
    i = 0
    while i < len(pattern):
        c = pattern[i]
        if escape and c == escape:
            i += 1
            if i >= len(pattern):
                return None
            out.append(_literal(pattern[i]))
        elif c == "%":
            out.append(".*")
        elif c == "_":
            out.append(".")
        elif c == "[":
            close = pattern.find("]", i + 2 if pattern[i + 1 : i + 2] == "]" else i + 1)
            if close < 0:
                return None
            body = pattern[i + 1 : close]
            negated = body.startswith("^")
            body = body[1:] if negated else body
            out.append(_set(body, negated))
            i = close
        else:
            out.append(_literal(c))
        i += 1
    out.append(" *$" if trailing_blanks else "$")
    return "".join(out)


def counts(pattern: str, escape: str | None) -> bool:
    """Whether the pattern has a wildcard for one character, or a set of them."""
    if escape:
        pattern = re.sub(re.escape(escape) + ".", "", pattern, flags=re.DOTALL)
    return "_" in pattern or "[" in pattern


def in_units(text: str) -> str:
    """The text in units of UTF-16, as `sys.to_units` writes them."""
    return "".join(
        c if c <= "\uffff" else chr(0xF0000 + (ord(c) - 0x10000 >> 10)) + chr(0xF0400 + (ord(c) - 0x10000 & 1023))
        for c in text
    )


def _literal(c: str) -> str:
    return "\\" + c if c in _SPECIAL else c


def _set(body: str, negated: bool) -> str:
    if not body:
        return "(?!)" if not negated else "."
    parts: list[str] = []
    i = 0
    while i < len(body):
        if i + 2 < len(body) and body[i + 1] == "-":
            if body[i] <= body[i + 2]:
                parts.append(f"{_in_set(body[i])}-{_in_set(body[i + 2])}")
            i += 3
        else:
            parts.append(_in_set(body[i]))
            i += 1
    return f"[{'^' if negated else ''}{''.join(parts)}]"


def _in_set(c: str) -> str:
    return "\\" + c if c in "\\]^-[" else c
