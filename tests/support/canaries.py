"""Looking for a secret in every form in which something may have written it down."""

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


def forms(secret: str) -> set[bytes]:
    """The bytes to look for: as it is, and as URLs, JSON, Python, shells, XML, SQL, ODBC, base64 and UTF-16 write it."""
    texts = {secret, repr(secret)[1:-1], shlex.quote(secret), html.escape(secret), ascii(secret)[1:-1]}
    texts |= {urllib.parse.quote(secret), urllib.parse.quote(secret, safe=""), urllib.parse.quote_plus(secret)}
    texts |= {secret.replace("'", "''"), secret.replace("}", "}}"), secret.replace("\\", "\\\\").replace("'", "\\'")}
    for _ in range(2):  # a line of a log that is kept as a line of another one is quoted twice
        texts |= {json.dumps(text, ensure_ascii=ascii)[1:-1] for text in set(texts) for ascii in (True, False)}
    found = {text.encode() for text in texts}
    found |= {text.encode(encoding) for text in (secret,) for encoding in ("utf-16-le", "utf-16-be")}
    for data in (secret.encode(), secret.encode("utf-16-le")):
        found |= {data.hex().encode(), data.hex().upper().encode()}
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            # Inside a longer text it can begin at any of three places of a group; the ends depend on the neighbours.
            found |= {encode(b"\0" * shift + data)[4 if shift else 0 : -4] for shift in range(3)}
    return found


def places_of(secrets: Iterable[str], places: Mapping[str, bytes]) -> dict[str, list[str]]:
    """Where each secret stands: its first characters, which say whose it is, and the names of the places."""
    found: dict[str, list[str]] = {}
    for secret in secrets:
        needles = forms(secret)
        where = sorted(name for name, content in places.items() if any(needle in content for needle in needles))
        if where:
            found[secret[-12:]] = where
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
