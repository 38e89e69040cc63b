"""Who wrote the batches that a test process sends itself: a test, or the code that it tests.

The trace of an endpoint tells which process sent a text. In a test process both write: the test its own checks and
damages, the product what must be in the corpus. The author of a text is found when mssql-python executes it: from there
outwards, the first function of this checkout that was not handed the text by its caller.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any


class Authors:
    """The texts that this process sent through mssql-python: which of them nobody but a test wrote."""

    def __init__(self, root: Path, tests: Sequence[Path]) -> None:
        self._root = f"{root}/"
        self._tests = tuple(f"{folder}/" for folder in tests)
        self._by_test: dict[str, bool] = {}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Until the end of the block, each text that a cursor of mssql-python executes is noted with its author."""
        from mssql_python.cursor import Cursor

        kept = {name: getattr(Cursor, name) for name in ("execute", "executemany")}
        for name, method in kept.items():
            setattr(Cursor, name, self.noting(method))
        try:
            yield
        finally:
            for name, method in kept.items():
                setattr(Cursor, name, method)

    def noting(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """A cursor's method that also notes who wrote its first argument."""

        def execute(cursor: Any, operation: Any, *arguments: Any, **options: Any) -> Any:
            if isinstance(operation, str) and self._by_test.get(operation, True):
                self._by_test[operation] = self._is_test(sys._getframe(1), operation)
            return method(cursor, operation, *arguments, **options)

        return execute

    def written_by_tests(self) -> Iterator[str]:
        yield from (text for text, by_test in self._by_test.items() if by_test)

    def written_by_others(self) -> Iterator[str]:
        yield from (text for text, by_test in self._by_test.items() if not by_test)

    def _is_test(self, frame: FrameType | None, text: str) -> bool:
        """Whether the author lies in a folder of tests. Functions of installed packages only pass a text on."""
        author = ""
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith(self._root) and "site-packages" not in file:
                author = file
                if not _was_handed(frame, text):
                    break
            frame = frame.f_back
        return author.startswith(self._tests)


def _was_handed(frame: FrameType, text: str) -> bool:
    code = frame.f_code
    named = code.co_argcount + code.co_kwonlyargcount
    names = code.co_varnames[: named + bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)]
    given = [frame.f_locals.get(name) for name in names]
    if any(isinstance(value, str) and value == text for value in given):
        return True
    if code.co_flags & 0x04:  # *arguments
        return any(isinstance(value, str) and value == text for value in frame.f_locals.get(names[named]) or ())
    return False
