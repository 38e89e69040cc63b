"""Microsoft's own T-SQL parser (ScriptDom, in the executable of the package maxdop) as a check for SQL texts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def parse_error(sql: str, *, version: str = "2019") -> str | None:
    """What the parser says against a text, or None. Parameter markers of drivers have to be replaced before."""
    parser = Path(sys.executable).parent / "maxdop"
    result = subprocess.run(
        [str(parser), "--parser-version", version], input=sql, text=True, capture_output=True, timeout=60, check=False
    )
    return None if result.returncode == 0 else result.stderr.strip() or f"exit code {result.returncode}"
