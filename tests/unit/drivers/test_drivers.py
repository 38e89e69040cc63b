"""Secrets, identifiers and SQL files: the small rules that everything above relies on."""

from __future__ import annotations

import hashlib
import pickle
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.contracts.principal import new_mssql_principal
from airflow_provider_dpone.drivers import (
    Secret,
    go_batches,
    load_sql,
    quote_clickhouse,
    quote_mssql,
    quote_postgres,
)
from airflow_provider_dpone.drivers.clickhouse import ClickHouseDsn
from airflow_provider_dpone.drivers.clickhouse import connect as connect_clickhouse
from airflow_provider_dpone.drivers.mssql import MsSqlDsn
from airflow_provider_dpone.drivers.mssql import connect as connect_mssql
from airflow_provider_dpone.drivers.mssql_password import hashed_password
from airflow_provider_dpone.drivers.postgres import PostgresDsn
from airflow_provider_dpone.drivers.postgres import connect as connect_postgres


def test_a_secret_shows_itself_only_when_asked() -> None:
    secret = Secret.generate()
    shown = [repr(secret), str(secret), f"{secret}", f"{secret:>20}", repr({"a": secret})]
    assert all(secret.reveal() not in text for text in shown)
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    with pytest.raises(TypeError):
        hash(secret)
    assert len(secret.reveal()) >= 32
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")


@pytest.mark.parametrize("bad", ["\0", "\ud83d"], ids=["NUL", "half of a character"])
@pytest.mark.parametrize("member", ["host", "database", "user", "password"])
@pytest.mark.parametrize(
    ("dsn_type", "connect"),
    [(MsSqlDsn, connect_mssql), (PostgresDsn, connect_postgres), (ClickHouseDsn, connect_clickhouse)],
    ids=["SQL Server", "PostgreSQL", "ClickHouse"],
)
def test_a_text_that_no_driver_can_send_is_refused_without_the_password(
    dsn_type: Any, connect: Callable[[Any], object], member: str, bad: str
) -> None:
    texts = {"host": "127.0.0.1", "database": "d", "user": "u", "password": "pass}word"}
    texts[member] += bad
    dsn = dsn_type(**{**texts, "password": Secret(texts["password"])}, port=1)
    with pytest.raises(ConfigurationError, match=f"the {member} of a .* connection") as refused:
        connect(dsn)
    held = [refused.value, refused.value.__cause__, refused.value.__context__]
    assert all("pass}word" not in repr(vars(error)) + repr(error) for error in held if error is not None)


def test_a_generated_password_is_long_enough_to_be_masked_and_is_part_of_no_name() -> None:
    """Airflow masks nothing under five characters, and masking a part of a name would hide the name."""
    for _ in range(100):
        secret = Secret.generate().reveal()
        names = [new_mssql_principal(str(uuid.uuid4()), "build").name, f"dpone_c_{uuid.uuid4().hex}"]
        assert len(secret) >= 32
        parts = {secret[at : at + 5] for at in range(len(secret) - 4)}
        assert not [name for name in names if any(part in name for part in parts)]


def test_a_dsn_does_not_show_its_password() -> None:
    dsn = MsSqlDsn(host="h", database="d", user="u", password=Secret("pass}word;{x"))
    assert "pass}word" not in repr(dsn)
    assert "PWD={pass}}word;{x};" in dsn.connection_string()
    with pytest.raises(ConfigurationError):
        MsSqlDsn(host="h\x00", database="d", user="u", password=Secret("p")).connection_string()


def test_a_password_hash_verifies_and_does_not_contain_the_password() -> None:
    literal = hashed_password(Secret("pä$$"))
    data = bytes.fromhex(literal.removeprefix("0x"))
    version, salt, digest = data[:2], data[2:6], data[6:]
    assert version == b"\x02\x00"
    assert digest == hashlib.sha512("pä$$".encode("utf-16-le") + salt).digest()
    assert hashed_password(Secret("pä$$")) != literal


@given(st.text(min_size=1, max_size=128).filter(lambda text: "\x00" not in text))
def test_quoted_identifiers_can_be_read_back(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        with pytest.raises(ConfigurationError):
            quote_mssql(text)
        return
    quoted = quote_mssql(text)
    assert quoted[1:-1].replace("]]", "]") == text
    assert "]" not in quoted[1:-1].replace("]]", "")


def test_identifiers_are_quoted_once_an_engine() -> None:
    assert quote_mssql("a]b", "c") == "[a]]b].[c]"
    assert quote_clickhouse("a`b\\") == "`a\\`b\\\\`"
    assert quote_postgres('a"b') == '"a""b"'
    for refuse, name in ((quote_mssql, "x" * 129), (quote_postgres, "я" * 32), (quote_mssql, ""), (quote_mssql, "\0")):
        with pytest.raises(ConfigurationError):
            refuse(name)


def test_scripts_are_cut_at_lines_that_say_go() -> None:
    assert go_batches("SELECT 1;\nGO\n\n go \r\nSELECT 'GO';\nGOTO x;\nGO") == ["SELECT 1;", "SELECT 'GO';\nGOTO x;"]


def test_every_statement_has_a_purpose_and_every_slot_is_given() -> None:
    sql = load_sql("airflow_provider_dpone.gates", "sql/mssql_gate.sql")
    assert set(sql.names) == set(sql.purposes)
    with pytest.raises(ConfigurationError, match="sql_slots"):
        sql.text("disable_login")
    with pytest.raises(ConfigurationError, match="sql_slots"):
        sql.text("visibility", login="[x]")


@pytest.mark.parametrize(
    "text",
    ["SELECT 1;\n", "-- name: a\nSELECT 1;\n", "-- name: a\n-- p\nSELECT 1;\n-- name: a\n-- p\nSELECT 2;\n"],
)
def test_a_file_without_name_or_purpose_or_with_a_name_twice_is_refused(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "sqlpackage"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "x.sql").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigurationError, match="sql_file"):
        load_sql.__wrapped__("sqlpackage", "x.sql")
