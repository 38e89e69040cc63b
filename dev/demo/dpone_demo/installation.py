"""Where the demo runs: the embedded stack, or servers that somebody else started (dev/airflow-compose)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Protocol

from dpone_embedded import Addresses
from dpone_embedded.statedir import StateDir


class Installation(Protocol):
    """Addresses with DBA logins, and a folder for generated passwords and evidence."""

    @property
    def addresses(self) -> Addresses: ...

    @property
    def state(self) -> StateDir: ...


class ExternalInstallation:
    """Addresses from a JSON document of the form of `Addresses.to_document`."""

    def __init__(self, addresses: Path, state_dir: Path) -> None:
        self.addresses = Addresses.from_document(json.loads(addresses.read_text(encoding="utf-8")))
        self.state = StateDir(state_dir)
        self.state.create()
