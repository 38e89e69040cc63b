"""Who may do what on SQL Server: every role tries every action, and the server decides as docs/roles.md says."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pytest

from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.drivers import Secret, drain
from airflow_provider_dpone.drivers.mssql import MsSqlDsn, connect
from airflow_provider_dpone.drivers.mssql_password import hashed_password
from airflow_provider_dpone.gates.interface import MsSqlWriterGrant
from airflow_provider_dpone.ledger.transaction import driver_errors
from tests.support.live_gate import LiveGate, autocommit
from tests.support.roles_page import allowed_on

ROLES = ("controller", "issuer", "closer", "outcome reader", "attempt")

#: Action -> who may. The same table stands in docs/roles.md.
ALLOWED: Mapping[str, frozenset[str]] = {
    action: frozenset(role.strip() for role in roles.split(",") if role.strip())
    for action, roles in {
        "read a gate row": "controller, issuer, closer",
        "admit an operation": "controller",
        "move a gate row": "issuer, closer",
        "record gate evidence": "closer",
        "store a proof": "controller",
        "finalize": "controller",
        "record a gate profile": "",
        "delete from the ledger": "",
        "create a login": "issuer, closer",
        "disable an attempt's login": "issuer, closer",
        "set the password of an attempt": "issuer, closer",
        "set the controller's password": "",
        "set the outcome reader's password": "",
        "grant a server right": "",
        "drop the LOGON trigger": "",
        "see other sessions": "closer",
        "end a session": "closer",
        "create a user in the target": "controller, issuer",
        "make a member of the writer role": "controller, issuer",
        "hand over the fence": "controller, issuer",
        "read target data": "controller, outcome reader, attempt",
        "read the outcome marker": "controller, outcome reader",
        "write target data": "controller, attempt",
        "create a table in the target": "controller, attempt",
        "create a procedure in the target": "controller",
    }.items()
}

_IN_CONTROL = {
    "read a gate row": "SELECT COUNT(*) FROM [dpone_control].[composition_login_gates];",
    "admit an operation": "INSERT INTO [dpone_control].[composition_operations]"
    " SELECT * FROM [dpone_control].[composition_operations] WHERE 1 = 0;",
    "move a gate row": "UPDATE [dpone_control].[composition_login_gates] SET [gate_state] = 'CLOSING' WHERE 1 = 0;",
    "record gate evidence": "INSERT INTO [dpone_control].[composition_mssql_gate_evidence]"
    " SELECT * FROM [dpone_control].[composition_mssql_gate_evidence] WHERE 1 = 0;",
    "store a proof": "INSERT INTO [dpone_control].[composition_proofs]"
    " SELECT * FROM [dpone_control].[composition_proofs] WHERE 1 = 0;",
    "finalize": "UPDATE [dpone_control].[composition_operations] SET [state] = 'SUCCEEDED' WHERE 1 = 0;",
    "record a gate profile": "INSERT INTO [dpone_ext].[gate_receipts]"
    " SELECT * FROM [dpone_ext].[gate_receipts] WHERE 1 = 0;",
    "delete from the ledger": "DELETE FROM [dpone_control].[composition_proofs] WHERE 1 = 0;",
}
_IN_MASTER = {
    "create a login": "CREATE LOGIN [tried] WITH PASSWORD = {hash} HASHED, CHECK_POLICY = OFF;",
    "disable an attempt's login": "ALTER LOGIN [{login}] DISABLE;",
    "set the password of an attempt": "ALTER LOGIN [{login}] WITH PASSWORD = N'Tried-1-password';",
    "set the controller's password": "ALTER LOGIN [{controller}] WITH PASSWORD = N'Tried-1-password';",
    "set the outcome reader's password": "ALTER LOGIN [{observer}] WITH PASSWORD = N'Tried-1-password';",
    "grant a server right": "GRANT ALTER ANY LOGIN TO [{observer}];",
    "drop the LOGON trigger": "DROP TRIGGER [dpone_logon_gate] ON ALL SERVER;",
    "see other sessions": "IF NOT EXISTS (SELECT 1 FROM sys.dm_exec_sessions WHERE [session_id] = {session})"
    " THROW 51000, 'no permission: it is not seen', 1;",
}
_IN_TARGET = {
    "create a user in the target": "CREATE USER [tried] WITHOUT LOGIN;",
    "make a member of the writer role": "ALTER ROLE [dpone_writer] ADD MEMBER [{issuer}];",
    "hand over the fence": "EXEC [dpone_fence].[advance] @operation_key = 'x', @login_name = N'x';",
    "read target data": "SELECT COUNT(*) FROM [raw].[effects];",
    "read the outcome marker": "SELECT COUNT(*) FROM [dpone_fence].[markers];",
    "write target data": "INSERT INTO [raw].[effects] ([operation_key]) VALUES ('x');",
    "create a table in the target": "CREATE TABLE [raw].[tried] ([a] int NOT NULL);",
    "create a procedure in the target": "CREATE PROCEDURE [raw].[tried] AS SELECT 1;",
}
_LOCK = (
    "DECLARE @lock int; EXEC @lock = sys.sp_getapplock @Resource = N'dpone:composition-control:v1',"
    " @LockMode = N'Exclusive', @LockOwner = N'Transaction', @LockTimeout = 20000;"
)
_REFUSED = re.compile(r"(?i)permission|is not able to access the database")


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A deployment with an attempt whose login is READY, and everybody's account."""

    live: LiveGate
    operation: Operation
    accounts: Mapping[str, MsSqlDsn]
    #: A session that is there all the time, of nobody who is tried.
    session: int

    def try_to(self, role: str, action: str) -> None:
        """Do it as the account of a role and take it back. Raises what the server answers."""
        if action == "end a session":
            self._end_a_session(role)
            return
        with autocommit(replace(self.accounts[role], database="master")) as connection:
            for batch in self._batches(action):
                drain(connection, batch)

    def _batches(self, action: str) -> Iterator[str]:
        """CREATE PROCEDURE stands alone in its batch; leaving the connection rolls all of it back."""
        where, statements = next(
            (database, statements)
            for database, statements in (
                (self.live.controller.database, _IN_CONTROL),
                ("master", _IN_MASTER),
                (self.live.target, _IN_TARGET),
            )
            if action in statements
        )
        names = {
            "login": self.operation.principals[0].name,
            "controller": self.live.controller.user,
            "issuer": self.live.issuer.user,
            "observer": self.live.observer.user,
            "hash": hashed_password(Secret.generate()),
            "session": str(self.session),
        }
        yield f"USE [{where}];"
        yield "BEGIN TRANSACTION;"
        if statements is _IN_CONTROL:
            yield _LOCK
        yield statements[action].format(**names)
        yield "ROLLBACK TRANSACTION;"

    def _end_a_session(self, role: str) -> None:
        victim = connect(replace(self.accounts["outcome reader"], database="master"))
        try:
            session = int(drain(victim, "SELECT CONVERT(int, @@SPID);")[0][0][0])
            with autocommit(replace(self.accounts[role], database="master")) as connection:
                drain(connection, f"KILL {session};")
        finally:
            # Of a session that was ended, closing says so.
            with contextlib.suppress(*driver_errors()):
                victim.close()


@pytest.fixture(scope="module")
def scene(deployment: LiveGate) -> Iterator[Scene]:
    operation = deployment.attempt(deployment.run_id()).admit()
    grant = MsSqlWriterGrant(database=deployment.target)
    credential = deployment.gate.issue(operation, operation.principals[0], grant)
    somebody = connect(deployment.dba)
    yield Scene(
        live=deployment,
        operation=operation,
        accounts={
            "controller": deployment.controller,
            "issuer": deployment.issuer,
            "closer": deployment.closer,
            "outcome reader": deployment.observer,
            "attempt": deployment.controller.for_login(credential.username, credential.secret),
        },
        session=int(drain(somebody, "SELECT CONVERT(int, @@SPID);")[0][0][0]),
    )
    somebody.close()
    deployment.settle_everything()


@pytest.mark.parametrize("action", ALLOWED)
@pytest.mark.parametrize("role", ROLES)
def test_the_server_allows_what_the_role_is_for_and_refuses_the_rest(scene: Scene, role: str, action: str) -> None:
    if role in ALLOWED[action]:
        scene.try_to(role, action)
        return
    with pytest.raises(Exception, match=_REFUSED):
        scene.try_to(role, action)


def test_the_table_of_the_documentation_is_this_one() -> None:
    assert allowed_on("SQL Server", ALLOWED) == (ROLES, ALLOWED)
