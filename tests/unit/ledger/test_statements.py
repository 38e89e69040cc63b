"""The ledger's SQL: complete, named, and accepted by Microsoft's parser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import airflow_provider_dpone
from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.contracts.gate_profile import AUTHORITY_CLASSES, AuthorityClass
from airflow_provider_dpone.drivers import load_sql
from airflow_provider_dpone.ledger import LedgerSettings
from airflow_provider_dpone.ledger.grants import StandingLogins, script
from airflow_provider_dpone.ledger.install import render
from airflow_provider_dpone.ledger.statements import FILES, LedgerSql, names
from tests.support.ledger_records import SERVICE
from tests.support.tsql_parser import parse_error

SETTINGS = LedgerSettings(service_id=SERVICE)
SQL = LedgerSql(SETTINGS)

#: Without the grants, which get the login they are for when they are rendered, and the row with the class of authority.
NAMES = sorted(
    name
    for file in (load_sql("airflow_provider_dpone.ledger", f"sql/{path}.sql") for path in FILES)
    for name in file.names
    if file.slots(name).isdisjoint({"user", "authority_class"})
)


@pytest.mark.parametrize("name", NAMES)
def test_every_statement_is_valid_tsql_once_its_parameters_stand_for_variables(name: str) -> None:
    assert parse_error(SQL.text(name).replace("?", "@p")) is None


def test_the_parser_refuses_what_is_no_tsql() -> None:
    assert parse_error("SELEC 1 FROM;") is not None


def test_statement_names_are_unique_over_all_files() -> None:
    found = list(names())
    assert len(found) == len(set(found))


def test_every_statement_says_its_purpose() -> None:
    for path in FILES:
        file = load_sql("airflow_provider_dpone.ledger", f"sql/{path}.sql")
        assert all(file.purposes.get(name) for name in file.names)


@pytest.mark.parametrize("name", NAMES)
def test_no_slot_is_left_open(name: str) -> None:
    assert "{{" not in SQL.text(name)


def test_schema_names_reach_every_statement() -> None:
    other = LedgerSql(LedgerSettings(service_id=SERVICE, control_schema="ctl", extension_schema="ext"))
    for name in NAMES:
        text = other.text(name)
        assert "dpone_control" not in text
        assert "dpone_ext" not in text


@pytest.mark.parametrize("batch", ["begin_exclusive", "begin_snapshot", "begin_install", "commit"])
def test_batches_that_set_session_options_have_no_parameters(batch: str) -> None:
    assert "?" not in SQL.text(batch)


@pytest.mark.parametrize("authority", AUTHORITY_CLASSES)
def test_the_rendered_installation_is_valid_in_every_batch(authority: AuthorityClass) -> None:
    text = render(SETTINGS, authority=authority)
    batches = re.split(r"(?m)^GO\n", text)
    assert "{{" not in text
    assert [each for each in AUTHORITY_CLASSES if f"@@VERSION), '{each}'" in text] == [authority]
    assert len(batches) > 30
    for batch in batches:
        if batch.strip():
            assert parse_error(batch) is None


def grants_of(user: str, logins: StandingLogins) -> str:
    """The grants (not the denials) that one login is given."""
    granted = [line for line in script(SETTINGS, logins).splitlines() if "GRANT " in line and f" TO {user}" in line]
    assert granted
    return "\n".join(granted)


LOGINS = StandingLogins(controller="o]wner", issuer="is'suer", closer="clo'ser", others=["reader"])


def test_every_batch_of_the_grants_parses() -> None:
    assert all(parse_error(batch) is None for batch in script(SETTINGS, LOGINS).split("\nGO\n") if batch.strip())


def test_nobody_gets_a_right_to_delete_or_to_define_and_only_the_closer_may_kill() -> None:
    controller, issuer, closer = (grants_of(user, LOGINS) for user in ("[o]]wner]", "[is'suer]", "[clo"))
    for text in (controller, issuer, closer):
        assert not re.search(r"\b(DELETE|CONTROL|EXECUTE)\b", text)
    assert "ALTER" not in controller
    assert re.findall(r"ALTER ANY \w+", issuer) == ["ALTER ANY LOGIN"]
    assert re.findall(r"ALTER ANY \w+", closer) == ["ALTER ANY LOGIN", "ALTER ANY CONNECTION"]
    assert "INSERT" not in issuer


def test_a_shared_login_is_a_user_once_and_is_denied_nothing_that_its_other_role_needs() -> None:
    text = script(SETTINGS, StandingLogins(controller="one", issuer="one", closer="one"))
    assert text.count("CREATE USER") == 1
    # Nobody but the installer records a gate profile.
    assert re.findall("DENY .*", text) == ["DENY INSERT ON OBJECT::[dpone_ext].[gate_receipts] TO [one];"]


@pytest.mark.parametrize("spelling", ["ONE", "one ", "\uff4fne"])
@pytest.mark.parametrize("part", ["controller", "issuer", "closer", "others"])
def test_two_spellings_of_one_login_are_refused(part: str, spelling: str) -> None:
    """The server would take them for one account, and what the controller is denied the closer needs."""
    names: dict[str, Any] = {"controller": "one", "issuer": "one", "closer": "one", "others": ()}
    with pytest.raises(ConfigurationError, match="two spellings"):
        StandingLogins(**names | {part: [spelling] if part == "others" else spelling})


def test_every_lock_belongs_to_a_transaction() -> None:
    """One that belongs to a session outlives its transaction, in a pool for ever."""
    texts = [path.read_text(encoding="utf-8") for path in Path(airflow_provider_dpone.__file__).parent.rglob("*.sql")]
    taken = [line for text in texts for line in text.splitlines() if "sp_getapplock" in line]
    assert taken
    assert all("@LockOwner = N'Transaction'" in line for line in taken), taken
