"""Lexer for ClickHouse SQL: enough to find statement heads, names and table references without being fooled by text.

It knows comments, string literals with backslash and doubled quotes, heredocs, and both kinds of quoted identifier.
It is lazy: an INSERT is followed by data that is no SQL, and the reader stops before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_SPACE = re.compile(r"(?:\s+|--[^\n]*(?:\n|$)|#[ !][^\n]*(?:\n|$)|/\*.*?\*/)+", re.DOTALL)
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = re.compile(r"[0-9][0-9A-Za-z_.]*")
_HEREDOC = re.compile(r"\$([A-Za-z0-9_]*)\$")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}


class SqlTextError(ValueError):
    """The text cannot be split into tokens: a literal, an identifier or a comment does not end."""


@dataclass(frozen=True)
class Token:
    """One token: ``kind`` is word, identifier (quoted), string, number or mark; ``value`` is its decoded text."""

    kind: str
    value: str
    start: int
    end: int

    def is_word(self, *words: str) -> bool:
        return self.kind == "word" and self.value.upper() in words

    @property
    def is_name(self) -> bool:
        return self.kind in ("word", "identifier")


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of ``text`` in order; raise SqlTextError where one does not end."""
    position, length = 0, len(text)
    while position < length:
        space = _SPACE.match(text, position)
        if space:
            position = space.end()
            continue
        character = text[position]
        if text.startswith("/*", position):
            raise SqlTextError("a comment does not end")
        if character in "'`\"":
            value, end = _quoted(text, position)
            yield Token("string" if character == "'" else "identifier", value, position, end)
        elif word := _WORD.match(text, position):
            end = word.end()
            yield Token("word", word.group(), position, end)
        elif number := _NUMBER.match(text, position):
            end = number.end()
            yield Token("number", number.group(), position, end)
        elif heredoc := _HEREDOC.match(text, position):
            close = text.find(heredoc.group(), heredoc.end())
            if close < 0:
                raise SqlTextError("a heredoc does not end")
            end = close + len(heredoc.group())
            yield Token("string", text[heredoc.end() : close], position, end)
        else:
            end = position + 1
            yield Token("mark", character, position, end)
        position = end


def _quoted(text: str, start: int) -> tuple[str, int]:
    quote, parts, position = text[start], [], start + 1
    while position < len(text):
        character = text[position]
        if character == "\\":
            if position + 1 >= len(text):
                break
            escaped = text[position + 1]
            if escaped == "x" and re.match(r"[0-9A-Fa-f]{2}", text[position + 2 : position + 4]):
                parts.append(chr(int(text[position + 2 : position + 4], 16)))
                position += 4
                continue
            parts.append(_ESCAPES.get(escaped, escaped))
            position += 2
        elif character == quote:
            if text[position + 1 : position + 2] == quote:
                parts.append(quote)
                position += 2
            else:
                return "".join(parts), position + 1
        else:
            parts.append(character)
            position += 1
    raise SqlTextError("a literal or a quoted identifier does not end")


def literal(value: str) -> str:
    """The string literal that means ``value``."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


class Cursor:
    """Reads tokens one after another, looking one ahead, for the hand-written parsers of this package."""

    def __init__(self, text: str) -> None:
        self._tokens = tokens(text)
        self._ahead: Token | None = None
        self._ended = False
        self.end = 0

    def peek(self) -> Token | None:
        if self._ahead is None and not self._ended:
            self._ahead = next(self._tokens, None)
            self._ended = self._ahead is None
        return self._ahead

    def take(self) -> Token | None:
        token = self.peek()
        self._ahead = None
        if token is not None:
            self.end = token.end
        return token

    def accept(self, *words: str) -> bool:
        """Take the given words if they come next; a part of them alone is an error of the text."""
        for index, word in enumerate(words):
            token = self.peek()
            if token is None or not token.is_word(word):
                if index:
                    raise SqlTextError(f"{word} was expected after {words[index - 1]}")
                return False
            self.take()
        return True

    def expect(self, *words: str) -> None:
        if not self.accept(*words):
            raise SqlTextError(f"{' '.join(words)} was expected")

    def mark(self, value: str) -> bool:
        token = self.peek()
        if token is None or token.kind != "mark" or token.value != value:
            return False
        self.take()
        return True

    def name(self) -> str:
        token = self.take()
        if token is None or not token.is_name:
            raise SqlTextError("a name was expected")
        return token.value

    def string(self) -> str:
        token = self.take()
        if token is None or token.kind != "string":
            raise SqlTextError("a string literal was expected")
        return token.value

    def table(self, default_database: str) -> tuple[str, str]:
        """Read ``[database.]table``; the default database stands for a missing one."""
        first = self.name()
        if self.mark("."):
            return first, self.name()
        return default_database, first

    def at_end(self) -> bool:
        while self.mark(";"):
            pass
        return self.peek() is None
