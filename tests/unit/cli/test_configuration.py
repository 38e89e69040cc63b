"""A configuration file with something wrong in it: one message that names the place, and no secret in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_dpone.cli.configuration import Configuration
from airflow_provider_dpone.contracts.errors import ConfigurationError

GOOD = """
service_id = "0f8fad5b-d9cd-469f-a165-70867728950e"
release_root = "/srv/dpone"
[mssql]
host = "sql"
control_database = "c"
[mssql.roles.controller]
user = "u"
password_file = "PASSWORD"
[mssql.roles.closer]
same_as = "controller"
[mssql.roles.outcome_reader]
same_as = "closer"
[mssql.roles.source_reader]
same_as = "outcome_reader"
"""
PASSWORD = "canary-}{;'\"&*%$\\ ß"


@pytest.fixture
def good(tmp_path: Path) -> str:
    (tmp_path / "password").write_text(PASSWORD + "\n", encoding="utf-8")
    return GOOD.replace("PASSWORD", str(tmp_path / "password"))


def read(tmp_path: Path, text: str) -> Configuration:
    path = tmp_path / "dpone.toml"
    path.write_text(text, encoding="utf-8")
    return Configuration.read(path)


def test_a_password_is_read_as_it_is(tmp_path: Path, good: str) -> None:
    assert read(tmp_path, good).services().source_reader.password.reveal() == PASSWORD


def test_an_installation_says_what_environment_it_is_or_nothing(tmp_path: Path, good: str) -> None:
    assert read(tmp_path, good).services().environment is None
    assert read(tmp_path, 'environment = "production"\n' + good).services().environment == "production"


def test_how_long_a_connection_is_waited_for_is_set_by_its_section(tmp_path: Path, good: str) -> None:
    assert read(tmp_path, good).services().controller.login_timeout_seconds == 15
    others = """[clickhouse]
host = "h"
connect_timeout = 2
roles = {access = {user = "a", password_file = "PASSWORD"}, observer = {same_as = "access"}}
[postgres]
host = "h"
connect_timeout = 3
database = "d"
roles = {issuer = {user = "i", password_file = "PASSWORD"}, observer = {user = "o", password_file = "PASSWORD"}}
""".replace("PASSWORD", str(tmp_path / "password"))
    set_there = good.replace("[mssql]\n", "[mssql]\nlogin_timeout = 1\n", 1) + others
    services = read(tmp_path, set_there).services()
    assert {services.controller.login_timeout_seconds, services.source_reader.login_timeout_seconds} == {1}
    assert services.clickhouse_access is not None and services.clickhouse_access.connect_timeout_seconds == 2
    assert services.postgres_issuer is not None and services.postgres_issuer.connect_timeout_seconds == 3


def test_the_postgres_accounts_and_the_source_role(tmp_path: Path, good: str) -> None:
    def with_roles(issuer: str, observer: str, role: str = "") -> str:
        return (
            good
            + f'[postgres]\nhost = "h"\ndatabase = "d"\n{role}\n[postgres.roles.issuer]\n{issuer}\n'
            + f"[postgres.roles.observer]\n{observer}\n"
        )

    account = f'password_file = "{tmp_path / "password"}"'
    one, other = f'user = "i"\n{account}', f'user = "o"\n{account}'
    services = read(tmp_path, with_roles(one, other)).services()
    assert [dsn.user for dsn in services.require_postgres()] == ["i", "o"]
    assert services.postgres_source_role == "dpone_source_reader"
    named = read(tmp_path, with_roles(one, 'same_as = "issuer"', 'source_role = "r"')).services()
    assert named.postgres_source_role == "r" and {dsn.user for dsn in named.require_postgres()} == {"i"}
    for wrong in (
        with_roles(one, one),
        with_roles(one, other, "source_role = 1"),
        with_roles(one, other, "source_role = ''"),
    ):
        with pytest.raises(ConfigurationError, match="configuration_file"):
            read(tmp_path, wrong).services()
    with pytest.raises(ConfigurationError, match="postgres_roles"):
        read(tmp_path, good).services().require_postgres()


def test_who_only_settles_names_no_issuer(tmp_path: Path, good: str) -> None:
    assert read(tmp_path, good).services().issuer is None
    issuer = read(tmp_path, good + '[mssql.roles.issuer]\nsame_as = "controller"\n').services().issuer
    assert issuer is not None and issuer.user == "u"


def test_one_login_for_two_roles_has_to_be_said(tmp_path: Path, good: str) -> None:
    for spelling in ("U", "u ", "\uff55"):
        twice = good + f'[mssql.roles.issuer]\nuser = "{spelling}"\npassword_env = "NOT_READ"\n'
        with pytest.raises(ConfigurationError, match="same_as"):
            read(tmp_path, twice).services()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[mssql]\n", "[mssql]\nport = '1433'\n"),
        ("[mssql]\n", "[mssql]\nport = 0\n"),
        ("[mssql]\n", "[mssql]\nport = 70000\n"),
        ("[mssql]\n", "[mssql]\nport = true\n"),
        ("[mssql]\n", "[mssql]\nlogin_timeout = 0\n"),
        ("[mssql]\n", "[mssql]\nlogin_timeout = 3601\n"),
        ("[mssql]\n", "[mssql]\nlogin_timeout = '15'\n"),
        ("[mssql]\n", "[mssql]\nlogin_timeout = true\n"),
        ("[mssql]\n", "[mssql]\nlogin_timeout = 1.5\n"),
        ("[mssql]\n", "[mssql]\ntrust_server_certificate = 'false'\n"),
        ("[mssql]\n", "[mssql]\ntrust_server_certificate = 0\n"),
        ('[mssql.roles.source_reader]\nsame_as = "outcome_reader"', "[mssql.roles.source_reader]\nsame_as = 'nobody'"),
        ('[mssql.roles.source_reader]\nsame_as = "outcome_reader"', "[mssql.roles]\nsource_reader = 'controller'"),
        ('same_as = "controller"', 'same_as = "source_reader"'),
        ('same_as = "controller"', "same_as = 1"),
        ('user = "u"', "user = 1"),
        ('user = "u"', ""),
        ('release_root = "/srv/dpone"', ""),
        ("[mssql]\n", "environment = ''\n[mssql]\n"),
        ("[mssql]\n", "environment = 1\n[mssql]\n"),
        ("0f8fad5b-d9cd-469f-a165-70867728950e", "0F8FAD5B-D9CD-469F-A165-70867728950E"),
        ("0f8fad5b-d9cd-469f-a165-70867728950e", "1"),
    ],
)
def test_a_wrong_setting_is_refused(tmp_path: Path, good: str, old: str, new: str) -> None:
    text = good.replace(old, new, 1)
    assert text != good
    with pytest.raises(ConfigurationError) as refused:
        read(tmp_path, text).services()
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize("text", ["mssql = 1", "mssql = []", "[mssql]\nroles = 'x'", "[[mssql]]", "", "\x00", "a = "])
def test_a_file_of_another_shape_is_refused(tmp_path: Path, text: str) -> None:
    head = "service_id = '0f8fad5b-d9cd-469f-a165-70867728950e'\nrelease_root = '/srv'\n"
    with pytest.raises(ConfigurationError):
        read(tmp_path, head + text).services()


def test_a_password_file_that_is_not_text_shows_nothing_of_itself(tmp_path: Path, good: str) -> None:
    (tmp_path / "password").write_bytes(b"canary\xff\xfe")
    with pytest.raises(ConfigurationError) as refused:
        read(tmp_path, good).services()
    assert "canary" not in str(refused.value)
    assert refused.value.__suppress_context__, "a traceback would show the decoding error"
