"""T-SQL tokens of a query or an expression."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tsqldev.errors import SqlError

_TOKEN = re.compile(
    r"""
    (?P<space>[\s\ufeff]+|--[^\n]*)
  | (?P<comment>/\*)
  | (?P<nstring>[nN]'(?:[^']|'')*')
  | (?P<string>'(?:[^']|'')*')
  | (?P<bracket>\[(?:[^\]]|\]\])*\])
  | (?P<quoted>"(?:[^"]|"")*")
  | (?P<binary>0[xX](?:[0-9a-fA-F]*))
  | (?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d*)?)
  | (?P<money>[$\u00a3\u20ac]\d+(?:\.\d*)?)
  | (?P<variable>@@?[\w@$#]*)
  | (?P<word>\$action\b|[^\W\d][\w@$#]*|\#{1,2}[\w@$#]+)
  | (?P<op>[<>!]=|<>|!<|!>|\+=|-=|\*=|/=|%=|&=|\|=|\^=|::|[-+*/%&|^~=<>(),.;{}])
    """,
    re.VERBOSE,
)


@dataclass(slots=True)
class Token:
    """`value` is upper case for words, the decoded text of strings and of quoted names, and the text otherwise."""

    kind: str  # word name string nstring binary number money variable op end
    value: str
    text: str
    pos: int


def _skip_comment(text: str, start: int) -> int:
    depth, i = 1, start + 2
    while depth:
        opening, closing = text.find("/*", i), text.find("*/", i)
        if closing < 0:
            raise SqlError(113, "Missing end comment mark '*/'.", severity=15, line=text.count("\n", 0, start) + 1)
        if 0 <= opening < closing:
            depth, i = depth + 1, opening + 2
        else:
            depth, i = depth - 1, closing + 2
    return i


def tokens(text: str, *, quoted_identifier: bool = True) -> list[Token]:
    found: list[Token] = []
    i, size = 0, len(text)
    match = _TOKEN.match
    while i < size:
        m = match(text, i)
        if m is None:
            raise _bad(text, i)
        kind = m.lastgroup or ""
        if kind == "space":
            i = m.end()
            continue
        if kind == "comment":
            i = _skip_comment(text, i)
            continue
        raw = m.group()
        if kind == "word":
            found.append(Token("word", raw.upper(), raw, i))
        elif kind == "nstring":
            found.append(Token(kind, raw[2:-1].replace("''", "'"), raw, i))
        elif kind == "string":
            found.append(Token(kind, raw[1:-1].replace("''", "'"), raw, i))
        elif kind == "bracket":
            found.append(Token("name", raw[1:-1].replace("]]", "]"), raw, i))
        elif kind == "quoted":
            found.append(Token("name" if quoted_identifier else "string", raw[1:-1].replace('""', '"'), raw, i))
        else:
            found.append(Token(kind, raw.lower() if kind == "variable" else raw, raw, i))
        i = m.end()
    found.append(Token("end", "", "", size))
    return found


def _bad(text: str, i: int) -> SqlError:
    line = text.count("\n", 0, i) + 1
    if text[i] in "'\"[" or text[i : i + 2] in ("N'", "n'"):
        tail = text[i + 1 :]
        return SqlError(105, f"Unclosed quotation mark after the character string '{tail}'.", severity=15, line=line)
    return SqlError(102, f"Incorrect syntax near '{text[i]}'.", severity=15, line=line)
