"""Looking for a secret in every form in which something may have written it down.

A secret ends with letters and digits that nothing else contains. No quoting changes those, so one look for them finds
all forms that are text.
"""

from __future__ import annotations

import base64
import html
import json
import shlex
import threading
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

#: The letters and digits at the end of a secret.
TAIL = 12


def forms(secret: str) -> set[bytes]:
    """What may have been written: as it is, and as URLs, JSON, Python, shells, XML, SQL, ODBC, base64 and UTF-16 write it."""
    texts = {secret, repr(secret)[1:-1], shlex.quote(secret), html.escape(secret), ascii(secret)[1:-1]}
    texts |= {urllib.parse.quote(secret), urllib.parse.quote(secret, safe=""), urllib.parse.quote_plus(secret)}
    texts |= {secret.replace("'", "''"), secret.replace("}", "}}"), secret.replace("\\", "\\\\").replace("'", "\\'")}
    for _ in range(2):  # a line of a log that is kept as a line of another one is quoted twice
        texts |= {json.dumps(text, ensure_ascii=ascii)[1:-1] for text in set(texts) for ascii in (True, False)}
    found = {text.encode(encoding) for text in texts for encoding in ("utf-8", "utf-16-le", "utf-16-be")}
    found |= {data.hex().encode() for data in (secret.encode(), secret.encode("utf-16-le"))}
    return found | {data.upper() for data in found if data.isalnum()} | _base64(secret)


def needles(secret: str) -> set[bytes]:
    """The bytes that are looked for: one of them is in every form."""
    tail = secret[-TAIL:]
    found = {tail.encode(encoding) for encoding in ("utf-8", "utf-16-le", "utf-16-be")}
    found |= {data.hex().encode() for data in set(found)}
    return found | {data.upper() for data in found if data != tail.encode()} | _base64(secret)


def _base64(secret: str) -> set[bytes]:
    """Inside a longer text it can begin at any of three places of a group; the ends depend on the neighbours."""
    return {
        encode(b"\0" * shift + data)[4 if shift else 0 : -4]
        for data in (secret.encode(), secret.encode("utf-16-le"))
        for encode in (base64.b64encode, base64.urlsafe_b64encode)
        for shift in range(3)
    }


def places_of(secrets: Iterable[str], places: Mapping[str, bytes]) -> dict[str, list[str]]:
    """Where each secret stands: its last characters, which say whose it is, and the names of the places."""
    found: dict[str, list[str]] = {}
    for secret in secrets:
        wanted = needles(secret)
        where = sorted(name for name, content in places.items() if any(needle in content for needle in wanted))
        if where:
            found[secret[-TAIL:]] = where
    return found


def files_below(*folders: Path) -> dict[str, bytes]:
    """Every file with its content, and its name."""
    found = {}
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink():
                with suppress(OSError):
                    found[str(path)] = path.name.encode() + b"\n" + path.read_bytes()
    return found


@contextmanager
def watched_processes(pid: int) -> Iterator[dict[str, bytes]]:
    """The environments and command lines of all descendants of a process, as long as they live. Read after the block."""
    seen: dict[str, bytes] = {}
    stop = threading.Event()

    def watch() -> None:
        root = psutil.Process(pid)
        while not stop.is_set():
            with suppress(psutil.NoSuchProcess):
                for process in root.children(recursive=True):
                    for name in ("environ", "cmdline"):
                        with suppress(OSError):
                            content = Path(f"/proc/{process.pid}/{name}").read_bytes()
                            # A process that is started shows its parent's until its own program runs.
                            key = f"/proc/{process.pid}/{name}"
                            if content not in seen.get(key, b""):
                                seen[key] = seen.get(key, b"") + content
            stop.wait(0.05)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield seen
    finally:
        stop.set()
        watcher.join()
