"""Where one T-SQL statement ends and the next begins, without semicolons."""

from __future__ import annotations

import pytest
from tsqldev.errors import SqlError
from tsqldev.session.lexer import tokens
from tsqldev.session.split import Block, If, Node, Simple, Try, While, split


def shape(nodes: list[Node]) -> list[object]:
    """First words of simple statements; (word, parts) for the others."""
    result: list[object] = []
    for node in nodes:
        if isinstance(node, Simple):
            result.append(node.first)
        elif isinstance(node, Block):
            result.append(("BLOCK", shape(node.body)))
        elif isinstance(node, If):
            result.append(("IF", shape([node.then]), shape([node.otherwise]) if node.otherwise else None))
        elif isinstance(node, While):
            result.append(("WHILE", shape([node.body])))
        else:
            assert isinstance(node, Try)
            result.append(("TRY", shape(node.body), shape(node.handler)))
    return result


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select 1 select 2", ["SELECT", "SELECT"]),
        ("insert t select 1 union all select 2 delete t", ["INSERT", "DELETE"]),
        ("insert t values (1) select * from t", ["INSERT", "SELECT"]),
        ("insert t default values select 1", ["INSERT", "SELECT"]),
        ("insert t exec p 1 exec q", ["INSERT", "EXEC"]),
        ("update t set a = 1 from t set nocount on", ["UPDATE", "SET"]),
        ("update t set a = case when 1 = 1 then 2 else 3 end where b = 1 print 'x'", ["UPDATE", "PRINT"]),
        (";with a as (select 1 x) insert t select x from a; with b as (select 1 y) select y from b", ["WITH", "WITH"]),
        ("select 1 order by 1 offset 1 rows fetch next 1 rows only select 2", ["SELECT", "SELECT"]),
        ("select * from a inner merge join b on a.x = b.x select 1", ["SELECT", "SELECT"]),
        ("grant select, insert, execute on x to y with grant option deny update on x to y", ["GRANT", "DENY"]),
        ("revoke grant option for select on x from y create user z", ["REVOKE", "CREATE"]),
        ("alter table t add constraint f foreign key (a) references b (c) on delete set null on update cascade drop table t",
         ["ALTER", "DROP"]),
        ("alter table t drop column a alter table t alter column b int", ["ALTER", "ALTER"]),
        ("alter table t drop constraint if exists c alter role r add member m alter role r drop member m",
         ["ALTER", "ALTER", "ALTER"]),
        ("alter database d set read_committed_snapshot on with rollback immediate use d", ["ALTER", "USE"]),
        ("alter login l disable enable trigger all on all server disable trigger a on b", ["ALTER", "ENABLE", "DISABLE"]),
        ("drop table if exists t if 1 = 1 return", ["DROP", ("IF", ["RETURN"], None)]),
        ("create table t (a int references b on delete cascade) set nocount on", ["CREATE", "SET"]),
        ("merge t using s on a = b when matched then update set x = 1 when not matched then insert (a) values (1); select 1",
         ["MERGE", "SELECT"]),
        ("sp_who 1 select 1", ["", "SELECT"]),
        ("begin tran begin select 1 end commit", ["BEGIN", ("BLOCK", ["SELECT"]), "COMMIT"]),
        ("if 1 = 1 select 1; else select 2 select 3", [("IF", ["SELECT"], ["SELECT"]), "SELECT"]),
        ("if exists (select 1 from t where a = (select 1)) update t set a = 1", [("IF", ["UPDATE"], None)]),
        ("if update(a) and case when 1 = 1 then 1 else 0 end = 1 throw", [("IF", ["THROW"], None)]),
        ("while 1 = 1 begin break continue end", [("WHILE", [("BLOCK", ["BREAK", "CONTINUE"])])]),
        ("begin try select 1 end try begin catch rollback; throw; end catch select 2",
         [("TRY", ["SELECT"], ["ROLLBACK", "THROW"]), "SELECT"]),
        ("if @@trancount = 0 begin transaction throw 50000, 'x', 1", [("IF", ["BEGIN"], None), "THROW"]),
        ("declare @t table (a int) declare @x int = (select 1) set @x = 2", ["DECLARE", "DECLARE", "SET"]),
        ("execute as login = N'x' revert kill 55 waitfor delay '0:0:1'", ["EXEC", "REVERT", "KILL", "WAITFOR"]),
        ("", []),
        ("-- nothing\n/* at /* all */ */ ;;", []),
    ],
)  # fmt: skip
def test_statements_end_where_the_next_begins(text: str, expected: list[object]) -> None:
    assert shape(split(text)) == expected


def test_lines_are_those_of_the_first_word() -> None:
    nodes = split("select 1\n\n  select\n2\n/* a\nb */ print 'x\ny' print 'z'")
    assert [node.line for node in nodes] == [1, 3, 6, 7]


def test_a_module_keeps_the_text_around_it() -> None:
    text = "-- why\nCREATE TRIGGER a ON b AFTER INSERT, UPDATE AS BEGIN SELECT 1 END\n\n"
    (node,) = split(text)
    assert isinstance(node, Simple)
    assert node.text == text


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("select 'a", 105),
        ("select [a", 105),
        ("/* a /* b */", 113),
        ("begin select 1", 102),
        ("if 1 = 1", 102),
        ("end", 156),
        ("select 1 create view v as select 1", 111),
        ("begin try select 1 end try select 2", 156),
        ("select 1; nonsense here", 102),
    ],
)
def test_what_does_not_parse_is_refused_whole(text: str, number: int) -> None:
    with pytest.raises(SqlError) as refused:
        split(text)
    assert refused.value.number == number


def test_comments_nest_and_strings_double_their_quotes() -> None:
    found = tokens("a /* x /* y */ ' */ N'it''s' [b]]c] \"d\"\"e\" 0xAB @p ##t 1.5e3")
    assert [token.kind for token in found] == [
        "word", "string", "quoted", "quoted", "binary", "variable", "word", "number", "end",
    ]  # fmt: skip
    assert found[1].value == "it's"
    assert found[2].name == "b]c"
    assert found[3].name == 'd"e'


@pytest.mark.parametrize("quoted", ["{}", "[{}]", '"{}"'])
def test_a_name_of_more_than_128_characters_is_refused(quoted: str) -> None:
    split(f"SELECT 1 AS {quoted.format('a' * 128)}")
    with pytest.raises(SqlError, match="too long") as refused:
        split(f"SELECT 1 AS {quoted.format('a' * 129)}")
    assert refused.value.number == 103
