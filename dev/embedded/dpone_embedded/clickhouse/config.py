"""The engine's configuration: config.xml, users.xml and the passwords of one state directory."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import uuid
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from dpone_embedded.clickhouse.access import CLASS_GRANTS, POOL_PREFIX, SHARED

POOL_SIZE = 256
"""Unused pool users of each writing class at every start: one attempt takes one of each. A used one stays declared, so
that its name keeps its meaning in query_log. The class without rights is one user that all share.
"""


@dataclass(frozen=True)
class Layout:
    """Where things lie in a state directory."""

    state: Path

    @property
    def data(self) -> Path:
        return self.state / "data"

    @property
    def log(self) -> Path:
        return self.state / "clickhouse-server.log"

    @property
    def access(self) -> Path:
        return self.state / "access.json"

    @property
    def secrets(self) -> Path:
        return self.state / "secrets.json"

    @property
    def readiness(self) -> Path:
        return self.state / "ready.json"


@dataclass
class Secrets:
    """Identity, standing accounts and pool users with their passwords; kept in a file that only its owner reads."""

    server_id: str
    accounts: dict[str, str]
    pool: dict[str, str]

    def pool_of(self, kind: str) -> list[str]:
        return [name for name in self.pool if name.startswith(f"{POOL_PREFIX}{kind}_")]


def load_secrets(layout: Layout, accounts: list[str], used: set[str]) -> Secrets:
    """Read the secrets, or make them; add standing accounts and fresh pool users so that enough are unused."""
    if layout.secrets.exists():
        found = Secrets(**json.loads(layout.secrets.read_text()))
    else:
        found = Secrets(str(uuid.uuid4()), {}, {})
    for name in accounts:
        found.accounts.setdefault(name, secrets.token_urlsafe(32))
    for kind in CLASS_GRANTS:
        unused = sum(1 for name in found.pool_of(kind) if name not in used)
        for _ in range((1 if kind == SHARED else POOL_SIZE) - unused):
            found.pool[f"{POOL_PREFIX}{kind}_{secrets.token_hex(8)}"] = secrets.token_urlsafe(24)
    descriptor = os.open(layout.secrets, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(vars(found), file)
    return found


def write(layout: Layout, found: Secrets, accounts: dict[str, tuple[str, ...]], port: int) -> None:
    """Write config.xml and users.xml. ``accounts`` maps a standing account to its grants; no grants: it manages
    access.
    """
    layout.data.mkdir(parents=True, exist_ok=True)
    (layout.state / "config.xml").write_text(
        "<clickhouse>\n"
        f"<logger><level>information</level><log>{escape(str(layout.log))}</log>"
        f"<errorlog>{escape(str(layout.log))}.err</errorlog><size>50M</size><count>2</count></logger>\n"
        f"<http_port>{port}</http_port><listen_host>127.0.0.1</listen_host><timezone>UTC</timezone>\n"
        f"<users_config>{escape(str(layout.state / 'users.xml'))}</users_config>\n"
        "<max_server_memory_usage>2000000000</max_server_memory_usage><mark_cache_size>67108864</mark_cache_size>\n"
        + "".join(
            f"<{log}><database>system</database><table>{log}</table>"
            f"<flush_interval_milliseconds>500</flush_interval_milliseconds></{log}>\n"
            for log in ("query_log", "part_log")
        )
        + "</clickhouse>\n"
    )
    users = [
        "<default><password></password><networks><ip>127.0.0.1</ip></networks><profile>keeper</profile>"
        "<quota>default</quota><grants><query>GRANT SYSTEM LISTEN ON *.*</query>"
        "<query>GRANT SELECT ON system.numbers</query></grants></default>"
    ]
    for name, grants in accounts.items():
        rights = "<access_management>1</access_management>" if not grants else _grants(grants)
        users.append(_user(name, found.accounts[name], rights))
    for kind, grants in CLASS_GRANTS.items():
        rights = _grants(grants or ("REVOKE ALL ON *.*",))
        users += [_user(name, found.pool[name], rights) for name in found.pool_of(kind)]
    path = layout.state / "users.xml"
    path.touch(mode=0o600)
    path.write_text(
        "<clickhouse><profiles><default/>"
        "<keeper><max_concurrent_queries_for_user>1</max_concurrent_queries_for_user></keeper></profiles><quotas><default/></quotas>\n<users>\n"
        + "\n".join(users)
        + "\n</users></clickhouse>\n"
    )


def _grants(grants: tuple[str, ...]) -> str:
    return "<grants>" + "".join(f"<query>{escape(grant)}</query>" for grant in grants) + "</grants>"


def _user(name: str, password: str, rights: str) -> str:
    digest = hashlib.sha256(password.encode()).hexdigest()
    return (
        f"<{name}><password_sha256_hex>{digest}</password_sha256_hex><networks><ip>127.0.0.1</ip></networks>"
        f"<profile>default</profile><quota>default</quota>{rights}</{name}>"
    )
