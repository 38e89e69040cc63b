"""The metadata of a server, at its first start and at later ones."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from tsqldev.catalog import Access, bootstrap
from tsqldev.catalog.bootstrap import MadeByAnother
from tsqldev.errors import SqlError
from tsqldev.pgserver import PostgresProcess

from .support import SA_PASSWORD, Session


def test_a_later_start_keeps_everything_and_gives_sa_its_new_password(postgres: PostgresProcess) -> None:
    with psycopg.connect(postgres.conninfo()) as connection:
        session = Session(connection)
        session.run("CREATE TABLE dbo.kept (i int)")
        bootstrap(connection, "another-Password")
        assert session.resolve("dbo.kept") is not None
        assert Access(connection).authenticate("sa", "another-Password").login_id == 1
        with pytest.raises(SqlError):
            Access(connection).authenticate("sa", SA_PASSWORD)
        connection.rollback()


def test_metadata_of_another_version_is_refused_and_left_alone(postgres: PostgresProcess) -> None:
    with psycopg.connect(postgres.conninfo()) as connection:
        connection.execute("update meta.made_by set scripts = 'older'")
        with pytest.raises(MadeByAnother, match="another version of tsqldev"):
            bootstrap(connection, "another-Password")
        assert Access(connection).authenticate("sa", SA_PASSWORD).login_id == 1
        connection.rollback()


def test_two_servers_in_one_process_do_not_share_what_lookups_found(postgres: PostgresProcess, tmp_path: Path) -> None:
    with PostgresProcess(tmp_path / "other") as other:
        with psycopg.connect(other.conninfo()) as connection:
            bootstrap(connection, SA_PASSWORD)
        with psycopg.connect(postgres.conninfo()) as here, psycopg.connect(other.conninfo()) as there:
            one, two = Session(here), Session(there)
            one.run("CREATE TABLE dbo.t (a int)")
            two.run("CREATE TABLE dbo.t (b int)")
            assert one.catalog.version != two.catalog.version
            assert [column.name for column in one.table("dbo.t").columns] == ["a"]
            assert [column.name for column in two.table("dbo.t").columns] == ["b"]
            here.rollback()
