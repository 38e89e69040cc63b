"""The LOGON trigger, what it lets through, and what a target database must still be when a login is issued."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_dpone.contracts.errors import ConfigurationError, GateTampered
from airflow_provider_dpone.contracts.principal import new_mssql_principal
from airflow_provider_dpone.drivers import Secret, drain
from airflow_provider_dpone.drivers.mssql import connect
from airflow_provider_dpone.drivers.mssql_password import hashed_password
from airflow_provider_dpone.gates import logon_gate
from airflow_provider_dpone.gates.interface import Credential, MsSqlWriterGrant
from tests.support.live_gate import LiveGate, autocommit


def test_a_login_with_our_tag_and_no_ready_gate_is_refused_and_any_other_passes(live: LiveGate) -> None:
    ours = new_mssql_principal(live.settings.service_id, "build")
    secret = Secret.generate()
    password = hashed_password(secret)
    live.as_dba(f"CREATE LOGIN [{ours.name}] WITH PASSWORD = {password} HASHED, SID = 0x{ours.sid.hex()};")
    live.as_dba(f"CREATE LOGIN [passer] WITH PASSWORD = {password} HASHED;")
    master = replace(live.dba, database="master")
    with pytest.raises(Exception, match=r"(?i)trigger|login failed"):
        connect(master.for_login(ours.name, secret))
    connect(master.for_login("passer", secret)).close()
    # A new name does not help: the barrier tells ours by SID.
    live.as_dba(f"ALTER LOGIN [{ours.name}] WITH NAME = [innocent];")
    with pytest.raises(Exception, match=r"(?i)trigger|login failed"):
        connect(master.for_login("innocent", secret))
    live.as_dba("DROP LOGIN [innocent]; DROP LOGIN [passer];")


def test_a_second_installation_is_refused(live: LiveGate) -> None:
    with autocommit(live.dba) as connection, pytest.raises(ConfigurationError, match="logon_gate_installed"):
        logon_gate.apply(connection, live.settings, live.controller.database)


def test_a_disabled_barrier_stops_issuing(live: LiveGate) -> None:
    operation = live.attempt(live.run_id()).admit()
    live.as_dba(f"DISABLE TRIGGER [{logon_gate.TRIGGER}] ON ALL SERVER;", database="master")
    try:
        with pytest.raises(GateTampered, match="logon_gate_disabled"):
            live.gate.issue(operation, operation.principals[0], MsSqlWriterGrant(database=live.target))
    finally:
        live.as_dba(f"ENABLE TRIGGER [{logon_gate.TRIGGER}] ON ALL SERVER;", database="master")
    assert live.logins(operation.principals[0].name) == []


def test_only_an_enrolled_database_of_the_operation_is_granted(live: LiveGate) -> None:
    operation = live.attempt(live.run_id()).admit()
    with pytest.raises(ConfigurationError, match="database_not_enrolled"):
        live.gate.issue(operation, operation.principals[0], MsSqlWriterGrant(database="master"))


def test_a_login_that_exists_before_it_is_issued_is_tampering(live: LiveGate) -> None:
    operation = live.attempt(live.run_id()).admit()
    principal = operation.principals[0]
    password = hashed_password(Secret.generate())
    live.as_dba(f"CREATE LOGIN [{principal.name}] WITH PASSWORD = {password} HASHED, SID = 0x{principal.sid.hex()};")
    with pytest.raises(GateTampered, match="login_exists"):
        live.gate.issue(operation, principal, MsSqlWriterGrant(database=live.target))
    assert live.gates.read(operation.attempt_sha256).state == "JOURNALED"  # type: ignore[union-attr]  # journaled above


VIOLATIONS = {
    "trustworthy": (
        "ALTER DATABASE [{target}] SET TRUSTWORTHY ON;",
        "ALTER DATABASE [{target}] SET TRUSTWORTHY OFF;",
    ),
    "chaining": (
        "ALTER DATABASE [{target}] SET DB_CHAINING ON;",
        "ALTER DATABASE [{target}] SET DB_CHAINING OFF;",
    ),
    "delayed_durability": (
        "ALTER DATABASE [{target}] SET DELAYED_DURABILITY = FORCED;",
        "ALTER DATABASE [{target}] SET DELAYED_DURABILITY = DISABLED;",
    ),
    "owner": (
        "ALTER AUTHORIZATION ON DATABASE::[{target}] TO [sa];",
        "ALTER AUTHORIZATION ON DATABASE::[{target}] TO [{controller}];",
    ),
    "role_member": (
        "CREATE USER [guest2] WITHOUT LOGIN; ALTER ROLE [dpone_writer] ADD MEMBER [guest2];",
        "ALTER ROLE [dpone_writer] DROP MEMBER [guest2]; DROP USER [guest2];",
    ),
    "membership": (
        "CREATE USER [boss] WITHOUT LOGIN; ALTER ROLE [db_owner] ADD MEMBER [boss];",
        "ALTER ROLE [db_owner] DROP MEMBER [boss]; DROP USER [boss];",
    ),
    "unsupported_object": (
        "EXEC(N'CREATE PROCEDURE [raw].[sneak] AS SELECT 1;');",
        "DROP PROCEDURE [raw].[sneak];",
    ),
    "writer_scope": (
        "GRANT DELETE ON SCHEMA::[dbo] TO [dpone_writer];",
        "REVOKE DELETE ON SCHEMA::[dbo] FROM [dpone_writer];",
    ),
    "ambient_grant": (
        "GRANT INSERT ON SCHEMA::[raw] TO [public];",
        "REVOKE INSERT ON SCHEMA::[raw] FROM [public];",
    ),
    "other_writer": (
        "CREATE USER [second] WITHOUT LOGIN; GRANT INSERT ON SCHEMA::[raw] TO [second];",
        "REVOKE INSERT ON SCHEMA::[raw] FROM [second]; DROP USER [second];",
    ),
}


@pytest.mark.parametrize("reason", VIOLATIONS)
def test_a_database_that_is_no_longer_dedicated_gets_no_login(live: LiveGate, reason: str) -> None:
    names = {"target": live.target, "controller": live.controller.user}
    broken, repaired = (sql.format(**names) for sql in VIOLATIONS[reason])
    operation = live.attempt(live.run_id()).admit()
    principal = operation.principals[0]
    live.as_dba(broken, database=live.target)
    try:
        with pytest.raises(ConfigurationError) as refused:
            live.gate.issue(operation, principal, MsSqlWriterGrant(database=live.target))
    finally:
        live.as_dba(repaired, database=live.target)
    assert refused.value.reason == f"login_database_policy_{reason}"
    assert live.logins(principal.name) == []
    live.gate.issue(operation, principal, MsSqlWriterGrant(database=live.target))


def test_a_writer_cannot_choose_that_what_it_commits_may_be_forgotten(live: LiveGate) -> None:
    """ALLOWED leaves that to each COMMIT of the writer: what was read of it, and recorded, a crash would take back."""
    operation = live.attempt(live.run_id()).admit()
    principal, grant = operation.principals[0], MsSqlWriterGrant(database=live.target)
    allow, forbid = (f"ALTER DATABASE [{live.target}] SET DELAYED_DURABILITY = {to};" for to in ("ALLOWED", "DISABLED"))
    live.as_dba(allow)
    try:
        with pytest.raises(ConfigurationError, match="login_database_policy_delayed_durability"):
            live.gate.issue(operation, principal, grant)
        live.as_dba(forbid)
        credential = live.gate.issue(operation, principal, grant)
        # Where it is DISABLED the server takes no notice of the option.
        with autocommit(replace(live.controller, database=live.target).for_login(*_login(credential))) as writer:
            drain(writer, "BEGIN TRANSACTION; COMMIT TRANSACTION WITH (DELAYED_DURABILITY = ON);")
        live.gate.close(operation, principal)
        live.as_dba(allow)
        with pytest.raises(ConfigurationError, match="target_durability"):
            live.gate.prove_quiescent(operation, principal)
    finally:
        live.as_dba(forbid)
    assert live.settlement(operation).prove_quiescence()


def _login(credential: Credential) -> tuple[str, Secret]:
    return credential.username, credential.secret


def test_an_observer_that_cannot_see_proves_nothing(live: LiveGate) -> None:
    operation = live.attempt(live.run_id()).admit()
    principal = operation.principals[0]
    live.gate.close(operation, principal)
    right = live.sees_sessions_by
    live.as_dba(f"REVOKE {right} FROM [{live.closer.user}];", database="master")
    try:
        with pytest.raises(ConfigurationError, match="observer_visibility"):
            live.gate.prove_quiescent(operation, principal)
    finally:
        live.as_dba(f"GRANT {right} TO [{live.closer.user}];", database="master")
    # Waits: whoever is just logging in counts as present, and that may be anybody.
    assert live.settlement(operation).prove_quiescence()


def test_the_installed_trigger_is_the_rendered_one(live: LiveGate) -> None:
    with autocommit(live.issuer) as connection:
        logon_gate.verify(connection, live.settings, live.controller.database)
        drain(connection, "SELECT 1;")


def test_a_reader_without_its_right_stops_issuing_and_is_found_by_the_probe(live: LiveGate) -> None:
    operation = live.attempt(live.run_id()).admit()
    principal = operation.principals[0]
    reader, rows = f"[{logon_gate.READER}]", "OBJECT::[dpone_control].[composition_login_gates]"
    control = live.controller.database
    for take, give in (
        (f"REVOKE SELECT ON {rows} FROM {reader}", f"GRANT SELECT ON {rows} TO {reader}"),
        (f"DENY SELECT ON {rows} TO {reader}", f"GRANT SELECT ON {rows} TO {reader}"),
    ):
        live.as_dba(take, database=control)
        try:
            with pytest.raises(GateTampered, match="logon_gate_reader_right"):
                live.gate.issue(operation, principal, MsSqlWriterGrant(database=live.target))
            with autocommit(replace(live.dba, database=control)) as connection:
                assert not logon_gate.reader_may_read(connection, live.settings)
        finally:
            live.as_dba(give, database=control)
    assert live.logins(principal.name) == []
    with autocommit(replace(live.dba, database=control)) as connection:
        assert logon_gate.reader_may_read(connection, live.settings)


def test_the_probe_is_itself_again_before_it_answers(live: LiveGate) -> None:
    """Also for a driver that takes the first row of the first result set and nothing else."""
    with autocommit(replace(live.dba, database=live.controller.database)) as connection:
        [[before]] = drain(connection, "SELECT USER_NAME() + N' ' + SUSER_SNAME();")
        cursor = connection.cursor()
        probe = logon_gate._SQL.text("reader_probe", reader_text=f"N'{logon_gate.READER}'")
        cursor.execute(probe, "[dpone_control].[composition_login_gates]")
        assert tuple(cursor.fetchone()) == (1,)
        cursor.close()
        [[after]] = drain(connection, "SELECT USER_NAME() + N' ' + SUSER_SNAME();")
        assert after == before
        assert probe.index("REVERT;") < probe.index("SELECT COALESCE")


def test_the_probe_of_an_account_that_may_not_impersonate_is_one_error(live: LiveGate) -> None:
    with autocommit(live.issuer) as connection, pytest.raises(ConfigurationError, match="logon_gate_reader") as refused:
        logon_gate.reader_may_read(connection, live.settings)
    assert refused.value.__cause__ is not None
