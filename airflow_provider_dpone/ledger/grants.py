"""The rights of the standing accounts in the control database and on its instance (docs/roles.md).

Printed for a DBA by ``dponectl ledger render-grants``; the same batches are run by who provisions a demo or a test. The rights
in a target database are in ``gates/target_database.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.drivers.quoting import quote_in_script, require_one_spelling
from airflow_provider_dpone.ledger.arguments import sequence
from airflow_provider_dpone.ledger.settings import LedgerSettings
from airflow_provider_dpone.ledger.statements import LedgerSql


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingLogins:
    """Logins by role. One login under two names serves both roles; the demo does not, and a server should not.

    ``others`` are standing logins of other roles: they get nothing here, and the issuer and the closer may not alter them.
    """

    controller: str
    issuer: str
    closer: str
    others: Sequence[str] = ()

    def __post_init__(self) -> None:
        sequence(self.others, str, "identifier")
        require_one_spelling((self.controller, self.issuer, self.closer, *self.others))

    @property
    def of_the_ledger(self) -> tuple[str, ...]:
        """The logins that have a user in the control database."""
        return tuple(dict.fromkeys((self.controller, self.issuer, self.closer)))

    def protected_from(self, login: str) -> tuple[str, ...]:
        return tuple(name for name in dict.fromkeys((*self.of_the_ledger, *self.others)) if name != login)


def script(settings: LedgerSettings, logins: StandingLogins) -> str:
    """GO-separated batches for a sysadmin, to be run once in the control database. They end in master."""
    if type(logins) is not StandingLogins:
        raise ConfigurationError("standing_logins", happened="these are not the standing logins of a ledger.")
    return "".join(f"{batch}\nGO\n" for batch in _batches(LedgerSql(settings), logins))


def _batches(sql: LedgerSql, logins: StandingLogins) -> Iterator[str]:
    controller, issuer, closer = map(quote_in_script, (logins.controller, logins.issuer, logins.closer))
    for login in logins.of_the_ledger:
        yield sql.text("standing_user", user=quote_in_script(login))
    yield sql.text("grant_controller", user=controller)
    if logins.controller not in (logins.issuer, logins.closer):
        yield sql.text("deny_gates", user=controller)
    for user in dict.fromkeys((issuer, closer)):
        yield sql.text("grant_reading", user=user)
        yield sql.text("grant_gate_row", user=user)
    yield sql.text("grant_gate_evidence", user=closer)
    yield sql.text("master")
    for user in dict.fromkeys((controller, issuer, closer)):
        yield sql.text("grant_definitions", user=user)
    for login in dict.fromkeys((logins.issuer, logins.closer)):
        user = quote_in_script(login)
        yield sql.text("grant_logins", user=user)
        for other in logins.protected_from(login):
            yield sql.text("protect_login", login=quote_in_script(other), user=user)
    yield sql.text("grant_closing", user=closer, user_in_text=closer.replace("'", "''"))
