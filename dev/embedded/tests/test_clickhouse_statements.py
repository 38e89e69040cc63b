"""The proxy's reading of SQL: names are found where ClickHouse finds them, and what is unknown is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from dpone_embedded.clickhouse.access import AccessBook
from dpone_embedded.clickhouse.rewrite import rewrite
from dpone_embedded.clickhouse.statements import PRIVILEGES, Refused, covers, needs, parse_access
from dpone_embedded.clickhouse.tokens import SqlTextError, literal, tokens

HASH = "ab" * 32


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a -- b\n c", ["a", "c"]),
        ("a /* b ' \" ` */ c", ["a", "c"]),
        ("#! shebang\na", ["a"]),
        ("'it''s' 'a\\'b' 'tab\\t' '\\x41'", ["it's", "a'b", "tab\t", "A"]),
        ('`a``b` "c""d" `e\\`f`', ["a`b", 'c"d', "e`f"]),
        ("$tag$ anything ' goes $tag$ x", [" anything ' goes ", "x"]),
        ("1.5e3 a.b", ["1.5e3", "a", ".", "b"]),
    ],
)
def test_comments_literals_and_quoted_names_are_read_as_one(text: str, values: list[str]) -> None:
    assert [token.value for token in tokens(text)] == values


@pytest.mark.parametrize("text", ["'open", "`open", '"open', "/* open", "$a$ open", "'ends in \\"])
def test_what_does_not_end_is_an_error(text: str) -> None:
    with pytest.raises(SqlTextError):
        list(tokens(text))


def test_a_literal_reads_back_as_itself() -> None:
    value = "a'b\\c'"
    [token] = tokens(literal(value))
    assert (token.kind, token.value) == ("string", value)


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("INSERT INTO a.b VALUES (1)", ("a", "b")),
        ("insert into table b format TSV\n1", ("d", "b")),
        ("INSERT INTO `a`.\"b\" (x, `y)`) SETTINGS s = 'FORMAT' FORMAT TSV", ("a", "b")),
        ("/* x.y */ INSERT INTO -- x.y\n a . b VALUES (1)", ("a", "b")),
    ],
)
def test_the_table_of_an_insert(text: str, table: tuple[str, str]) -> None:
    assert needs(text, "d").grants == (("INSERT", *table),)


def test_the_data_of_an_insert_is_not_read() -> None:
    assert needs("INSERT INTO a.b FORMAT TSV\nunbalanced ' and /* open", "d").streams


def test_exchange_needs_every_right_on_both_names() -> None:
    found = needs("EXCHANGE TABLES a.b AND c", "d").grants
    assert set(found) == {(right, *name) for right in PRIVILEGES for name in (("a", "b"), ("d", "c"))}


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO a.b SELECT 1",
        "INSERT INTO FUNCTION file('x') VALUES (1)",
        "INSERT INTO a.b FROM INFILE 'x' FORMAT TSV",
        "EXCHANGE TABLES a AND b ON CLUSTER c",
        "RENAME TABLE a TO b, c TO d",
        "DROP TABLE a, b",
    ],
)
def test_more_than_the_known_form_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        needs(text, "d")


def test_users_and_grants_are_understood() -> None:
    created = parse_access(
        f"CREATE USER `u` IDENTIFIED WITH sha256_hash BY '{HASH}' SALT 's' VALID UNTIL '2030-01-01 00:00:00' HOST LOCAL",
        "d",
    )
    assert created is not None and created.verb == "CREATE" and created.user == "u"
    assert created.clauses.hosts == ("local",) and created.clauses.valid_until == 1893456000.0
    granted = parse_access("GRANT SELECT, CREATE TABLE ON `a`.b TO u", "d")
    assert granted is not None and granted.grants == (("SELECT", "a", "b"), ("CREATE TABLE", "a", "b"))
    revoked = parse_access("REVOKE ALL ON *.* FROM u", "d")
    assert revoked is not None and {grant[0] for grant in revoked.grants} == set(PRIVILEGES)
    assert parse_access("CREATE TABLE user (a Int64)", "d") is None
    assert parse_access("SHOW GRANTS", "d") is None
    assert parse_access("SELECT 'CREATE USER x'", "d") is None


def test_a_wider_grant_covers_and_a_narrower_does_not() -> None:
    assert covers(("INSERT", "a", "*"), ("INSERT", "a", "b"))
    assert not covers(("INSERT", "a", "b"), ("INSERT", "a", "c"))
    assert not covers(("SELECT", "a", "b"), ("INSERT", "a", "b"))


@pytest.fixture
def book(tmp_path: Path) -> AccessBook:
    made = AccessBook(tmp_path / "access.json", {"none": ["dpone_pool_none_1"], "insert": [], "publish": []})
    made.observed = {"dpone_pool_insert_1": "writer"}
    return made


def test_names_in_system_tables_and_in_kill_are_the_sql_users(book: AccessBook) -> None:
    seen = rewrite("SELECT user FROM system.processes WHERE user = 'writer'", book, "id", None)
    assert seen.startswith("SELECT user FROM (SELECT * REPLACE (") and ") AS processes WHERE user = 'writer'" in seen
    assert "['dpone_pool_insert_1'], ['writer']" in seen
    aliased = rewrite("SELECT p.user FROM `system`.processes AS p, system.query_log q", book, "id", None)
    assert aliased.count("REPLACE") == 2 and "AS processes" not in aliased
    killed = rewrite("KILL QUERY WHERE user = {user:String} ASYNC", book, "id", None)
    assert "{user:String}" in killed and "['writer']" in killed


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 'FROM system.processes'",
        "SELECT user FROM flights.processes",
        "DESCRIBE TABLE system.processes",
        "SELECT 1 -- FROM system.processes",
    ],
)
def test_everything_else_stays_as_it_was_written(book: AccessBook, text: str) -> None:
    assert rewrite(text, book, "id", None) == text


def test_the_identity_of_the_server_is_the_state_directorys(book: AccessBook) -> None:
    assert rewrite("SELECT serverUUID()", book, "0f8f", None) == "SELECT toUUID('0f8f')"
