"""Who the session acts as, and in which database: USE, EXECUTE AS, REVERT, modules with EXECUTE AS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tsqldev.catalog import Access, Login, Principal
from tsqldev.errors import SqlError, unsupported
from tsqldev.interfaces import ModuleInfo
from tsqldev.session import queries
from tsqldev.session.backend import Backend
from tsqldev.session.frames import Settings
from tsqldev.session.lexer import STRING, VARIABLE, Token, near
from tsqldev.session.split import Simple
from tsqldev.types import nvarchar

if TYPE_CHECKING:
    from tsqldev.interfaces import ResultSink
    from tsqldev.session.interp import Interpreter
    from tsqldev.session.registry import SessionRecord


@dataclass(frozen=True, slots=True)
class Impersonation:
    """What REVERT goes back to. `depth` is the frame that said EXECUTE AS; `final` forbids REVERT."""

    before: Principal
    depth: int
    final: bool = False


class Identity:
    """The part of a session that knows its principal and keeps PostgreSQL's settings equal to it."""

    access: Access
    backend: Backend
    login: Login
    principal: Principal
    settings: Settings
    record: SessionRecord
    sink: ResultSink

    def __init__(self) -> None:
        self.impersonations: list[Impersonation] = []
        # The security ids of the logins that this session has acted as: what other sessions see of it.
        self.sids: dict[int, bytes] = {}
        self._sent: tuple[object, ...] | None = None

    # -- databases

    @property
    def database(self) -> str:
        return self.principal.database

    def use(self, name: str) -> None:
        """USE: in the same identity. Raises 911 or 916."""
        self.principal = self._in_database(name)
        self._changed_database(self._announced)

    def _in_database(self, name: str) -> Principal:
        self.sync()
        principal = self.principal
        if name.casefold() == principal.database.casefold():
            return principal
        if not principal.server_scope:
            raise SqlError(
                916,
                f'The server principal "{principal.login}" is not able to access the database "{name}" under the '
                "current security context.",
                severity=14,
            )
        return self.access.enter(principal.login_id, name)

    def enter_module_database(self, name: str) -> None:
        """A module runs in its own database; the client is not told."""
        self.principal = self._in_database(name)

    def announce_database(self, name: str) -> None:
        """After a dynamic batch: back in the caller's database; the client learns it if the batch said USE."""
        if self._announced.casefold() != name.casefold():
            self._changed_database(self._announced)

    def _changed_database(self, old: str) -> None:
        new = self.principal.database
        self._announced = new
        self.sink.database_changed(new, old)
        self.sink.info(5701, f"Changed database context to '{new}'.", state=2)

    _announced = "master"

    # -- principals

    def execute_as(self, interp: Interpreter, node: Simple, items: list[Token]) -> None:
        """The part after AS of EXECUTE AS, or of EXEC (string) AS."""
        kind = items[0].word if items else ""
        final = False
        if kind in ("LOGIN", "USER"):
            if len(items) < 3 or items[1].text != "=":
                raise near(items[-1])
            name = self._principal_name(interp, node, items[2])
            rest = [token.word for token in items[3:]]
            if rest == ["WITH", "NO", "REVERT"]:
                final = True
            elif rest:
                raise unsupported("EXECUTE AS ... WITH COOKIE")
            self.sync()
            target = (
                self.access.as_login(self.principal, name)
                if kind == "LOGIN"
                else self.access.as_user(self.principal, name)
            )
        elif kind == "CALLER":
            target = self.principal
        else:
            raise near(items[0] if items else node.tokens[-1])
        self.impersonations.append(Impersonation(self.principal, len(interp.frames), final))
        self.principal = target
        # Other sessions see the new SID at once, not with this session's next statement.
        self.sync()

    def _principal_name(self, interp: Interpreter, node: Simple, token: Token) -> str:
        if token.kind == STRING:
            return token.value
        if token.kind == VARIABLE:
            return str(queries.scalar(interp, token.text, nvarchar(128)))
        raise near(token)

    def revert(self, interp: Interpreter) -> None:
        """REVERT: one step back; without effect where this scope has not impersonated."""
        if not self.impersonations or self.impersonations[-1].depth < len(interp.frames):
            return
        last = self.impersonations[-1]
        if last.final:
            return
        if last.before.database.casefold() != self.principal.database.casefold():
            raise SqlError(
                15199,
                "The current security context cannot be reverted. Please switch to the original database where "
                "'Execute As' was called and try it again.",
            )
        self.impersonations.pop()
        self.principal = last.before

    def restore_principal(self, principal: Principal, impersonations: int) -> None:
        """The end of a module or dynamic batch: its EXECUTE AS and USE end with it."""
        del self.impersonations[impersonations:]
        self.principal = principal

    def impersonate_module(self, module: ModuleInfo) -> None:
        """WITH EXECUTE AS OWNER | 'user' of a module."""
        if module.execute_as is None or module.execute_as.upper() == "CALLER":
            return
        self.sync()
        name = module.execute_as
        if name == "OWNER":
            name = self.access.user_name(self.principal.database_id, module.owner_id)
        self.principal = self.access.as_user(self.principal, name, checked=False)

    # -- PostgreSQL's view of it

    def settings_lost(self) -> None:
        self._sent = None

    def sync(self) -> None:
        """Make PostgreSQL's settings those of the session, where they differ."""
        wanted = (self.principal, self.settings.lock_timeout, self.login.login_id)
        if wanted == self._sent:
            return
        timeout = self.settings.lock_timeout
        values = {
            **self.principal.settings(),
            "tsql.original_login": str(self.login.login_id),
            "tsql.spid": str(self.record.spid),
            "lock_timeout": "0" if timeout < 0 else f"{max(timeout, 1)}ms",
        }
        calls = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in values.items())
        rows, _ = self.backend.run(
            f"select (select sid from meta.logins where principal_id = {self.principal.login_id}), {calls}"
        )
        self.sids[self.principal.login_id] = bytes(rows[0][0] or b"")
        self._sent = wanted
