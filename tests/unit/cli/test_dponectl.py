"""What a person at the command line sees when something is missing: one clear message, and nothing started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CONFIG = """
service_id = "0f8fad5b-d9cd-469f-a165-70867728950e"
release_root = "/nowhere"
[mssql]
host = "127.0.0.1"
port = 1
login_timeout = 1
control_database = "dpone_control"
[mssql.roles.controller]
user = "dpone_controller"
{password}
[mssql.roles.closer]
same_as = "controller"
[mssql.roles.outcome_reader]
same_as = "controller"
[mssql.roles.source_reader]
same_as = "controller"
"""


def dponectl(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "airflow_provider_dpone.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "password").write_text("canary-}{;'\"&*%$\\\n")
    path = tmp_path / "dpone.toml"
    path.write_text(CONFIG.format(password=f'password_file = "{tmp_path}/password"'))
    return path


def test_a_command_that_needs_a_configuration_says_so() -> None:
    finished = dponectl("ledger", "render")

    assert finished.returncode == 2
    assert "--config" in finished.stderr


@pytest.mark.parametrize(
    ("password", "named"),
    [
        ("", "password_file"),
        ('password_env = "DPONE_NOT_SET_ANYWHERE"', "empty or unset"),
        ('password_file = "/nowhere/at/all"', "/nowhere/at/all"),
    ],
)
def test_a_missing_secret_is_named(tmp_path: Path, password: str, named: str) -> None:
    path = tmp_path / "dpone.toml"
    path.write_text(CONFIG.format(password=password))

    finished = dponectl("--config", str(path), "attempts", "list")

    assert finished.returncode == 1
    assert named in finished.stderr
    assert "Traceback" not in finished.stderr


def test_a_wrong_address_is_one_clear_message_without_the_password(config: Path) -> None:
    finished = dponectl("--config", str(config), "attempts", "list")

    assert finished.returncode == 1
    assert "DPONE_CONTROL_UNAVAILABLE" in finished.stderr
    assert "127.0.0.1,1" in finished.stderr
    assert "nothing was sent" in finished.stderr
    assert "canary" not in finished.stderr + finished.stdout
    assert "Traceback" not in finished.stderr


def test_every_script_for_a_dba_is_printed_without_a_connection(config: Path) -> None:
    ledger = dponectl("--config", str(config), "ledger", "render")
    gate = dponectl("--config", str(config), "gate", "render", "--control-database", "dpone_control")
    logins = ("--controller", "c", "--issuer", "i]x")
    grants = dponectl("--config", str(config), "ledger", "render-grants", *logins, "--closer", "z", "--protect", "o")
    target = dponectl("target", "render", "dw", "--schema", "raw]x", *logins, "--outcome-reader", "o")
    given = ("ops", "--table", "public", 'a"b', "--issuer", "i", "--observer", "o", "--source-role", "s")
    source, database = dponectl("source", "render", *given), dponectl("source", "render", *given, "--no-accounts")

    assert "composition_operations" in ledger.stdout
    assert "ON ALL SERVER" in gate.stdout
    assert "[raw]]x]" in target.stdout
    assert "GRANT ALTER ON ROLE::[dpone_writer] TO [i]]x]" in target.stdout
    assert "DENY ALTER ON LOGIN::[o] TO [i]]x]" in grants.stdout
    assert 'CREATE ROLE "i" LOGIN CREATEROLE' in source.stdout and "CREATE ROLE" not in database.stdout
    for script in (source, database):
        assert 'GRANT SELECT ON "public"."a""b" TO "s"' in script.stdout
    groups = dponectl("--config", str(config), "ledger", "render", "--group", "trust", "--group", "registration")
    rights = dponectl("--config", str(config), "ledger", "render-group-grants", "registrar", "r]x")
    assert groups.stdout.index("[policy_revisions]") < groups.stdout.index("[memberships]")
    assert "GRANT INSERT ON OBJECT::[dpone_registration].[grants] TO [r]]x]" in rights.stdout


def test_the_seed_routine_is_printed_with_quoted_names_for_its_roles_alone() -> None:
    given = ("o'ps", "--schema", "fix'tu\"res", "--issuer", "i", "--observer", "o", "--source-role", "s")
    printed = dponectl("source", "render-seed", *given, "--owner", 'ow"ner')
    for part in (
        'CREATE ROLE "ow""ner" NOLOGIN;',
        'ON DATABASE "o\'ps" TO "dpone_seeder"',
        "VALUES ('fix''tu\"res')",
        'ON SCHEMA "fix\'tu""res" TO "o", "s"',
        "REVOKE ALL ON ALL FUNCTIONS IN SCHEMA dpone_seed FROM PUBLIC;",
    ):
        assert part in printed.stdout
    assert printed.stdout.count("SECURITY DEFINER") == 3
    assert printed.stdout.count("SET search_path = pg_catalog, pg_temp") == 4
    assert "PASSWORD" not in printed.stdout
