"""A cursor over the tokens of one text, and the errors of what does not fit."""

from __future__ import annotations

from typing import NoReturn

from tsqldev.compile.tokens import Token, tokens
from tsqldev.compile.words import RESERVED
from tsqldev.errors import SqlError


class Reader:
    def __init__(self, text: str, *, quoted_identifier: bool = True) -> None:
        self.text = text
        self.tokens = tokens(text, quoted_identifier=quoted_identifier)
        self.i = 0
        # How deep a recursive query may go, by OPTION (MAXRECURSION n); 0 is without end.
        self.max_recursion = 100

    # ---- tokens --------------------------------------------------------------------------------------------------

    @property
    def token(self) -> Token:
        return self.tokens[self.i]

    def peek(self, ahead: int = 1) -> Token:
        return self.tokens[min(self.i + ahead, len(self.tokens) - 1)]

    def line(self, pos: int) -> int:
        return self.text.count("\n", 0, pos) + 1

    def error(self, token: Token | None = None) -> SqlError:
        token = token or self.token
        line = self.line(token.pos)
        if token.kind == "word" and token.value in RESERVED:
            return SqlError(156, f"Incorrect syntax near the keyword '{token.text}'.", severity=15, line=line)
        near = token.text if token.kind != "end" else (self.tokens[self.i - 1].text if self.i else "")
        near = near[1:-1] if token.kind in ("string", "name") and len(near) > 1 else near
        return SqlError(102, f"Incorrect syntax near '{near}'.", severity=15, line=line)

    def fail(self, token: Token | None = None) -> NoReturn:
        raise self.error(token)

    def at(self, *words: str) -> bool:
        """Whether the next tokens are these words or operators."""
        for ahead, word in enumerate(words):
            token = self.peek(ahead)
            if token.kind not in ("word", "op") or token.value != word:
                return False
        return True

    def take(self, *words: str) -> bool:
        if self.at(*words):
            self.i += len(words)
            return True
        return False

    def need(self, *words: str) -> None:
        for word in words:
            if not self.take(word):
                self.fail()

    def end(self) -> None:
        while self.take(";"):
            pass
        if self.token.kind != "end":
            self.fail()

    # ---- names ---------------------------------------------------------------------------------------------------

    def at_name(self) -> bool:
        token = self.token
        return token.kind == "name" or (token.kind == "word" and token.value not in RESERVED)

    def name(self) -> str:
        if not self.at_name():
            self.fail()
        self.i += 1
        token = self.tokens[self.i - 1]
        return token.value if token.kind == "name" else token.text

    def column_name(self) -> str:
        """A name after a dot or in a list; `$action`, `$identity` and reserved words are none."""
        return self.name()

    def dotted(self) -> tuple[str, ...]:
        """A name of up to four parts; an omitted middle part is empty."""
        parts = [self.name()]
        while self.at("."):
            self.i += 1
            if self.at("."):
                parts.append("")
                continue
            parts.append(self.name())
        if len(parts) > 4:
            raise SqlError(
                117,
                f"The object name '{'.'.join(parts)}' contains more than the maximum number of prefixes. The maximum is 3.",
                severity=15,
                line=self.line(self.token.pos),
            )
        return tuple(parts)
