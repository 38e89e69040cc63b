"""The batch trace: every batch and call of clients as one JSON line, without values that could be secrets."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import IO

_SECRET = re.compile(
    r"(\b(?:OLD_)?PASSWORD\s*=\s*|\bSECRET\s*=\s*|\bENCRYPTION\s+BY\s+PASSWORD\s*=\s*)(N?'(?:[^']|'')*'|0x[0-9A-F]*)",
    re.IGNORECASE,
)
_INSIDE_STRING = re.compile(r"(\b(?:OLD_)?PASSWORD\s*=\s*)(N?''(?:[^']|'''')*'')", re.IGNORECASE)


@lru_cache(1024)
def masked(text: str) -> str:
    """The text with the literals of passwords replaced, also inside a character string of dynamic SQL."""
    return _SECRET.sub(r"\1'***'", _INSIDE_STRING.sub(r"\1''***''", text))


class Trace:
    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._file: IO[str] = path.open("a", encoding="utf-8")

    def write(
        self,
        kind: str,
        spid: int,
        login: str,
        database: str,
        program: str,
        text: str,
        parameters: Sequence[str] = (),
        procedure: str = "",
        client: int = 0,
    ) -> None:
        line = {
            "at": round(time.time(), 3),
            "kind": kind,
            "session": spid,
            "client": client,
            "login": login,
            "database": database,
            "program": program,
            "text": masked(text),
        }
        if procedure:
            line["procedure"] = procedure
            line["parameters"] = list(parameters)
        data = json.dumps(line, ensure_ascii=False)
        with self._lock:
            self._file.write(data + "\n")
            self._file.flush()

    def close(self) -> None:
        self._file.close()
