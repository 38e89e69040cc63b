"""The groups in which a first version answered wrongly without a word: each right now, or refused by name.

Batches and answers as in stored_rules. What two sessions do to each other is in the tests of locks.
"""

Rules = list[tuple[str, str | None]]

_WRITERS = "CREATE USER u WITHOUT LOGIN; CREATE ROLE r; ALTER ROLE r ADD MEMBER u"

SILENT: dict[str, Rules] = {
    "equality without case": [
        ("CREATE TABLE t (a varchar(9)); INSERT t VALUES ('Abc'), ('abC'), ('x')", None),
        ("SELECT COUNT(*) FROM t WHERE a = 'ABC'", "2"),
        ("SELECT COUNT(DISTINCT a) FROM t", "2"),
        ("SELECT COUNT(*) FROM t x JOIN t y ON x.a = y.a", "5"),
        ("SELECT COUNT(*) FROM t WHERE a COLLATE Latin1_General_100_BIN2 = 'Abc'", "1"),
    ],
    "LIKE": [
        ("CREATE TABLE t (a varchar(9)); INSERT t VALUES ('Abc'), ('a_c'), ('[x]'), ('50%')", None),
        ("SELECT a FROM t WHERE a LIKE '[A-B]B_'", "Abc"),
        ("SELECT a FROM t WHERE a LIKE 'A[_]C'", "a_c"),
        ("SELECT a FROM t WHERE a LIKE '[[]X]'", "[x]"),
        ("SELECT a FROM t WHERE a LIKE '%!%' ESCAPE '!'", "50%"),
        ("SELECT COUNT(*) FROM t WHERE a LIKE '[^a]%'", "2"),
    ],
    "ORDER BY": [
        (
            "SELECT x FROM (VALUES ('b'), ('A'), ('_'), ('1'), (NULL), ('Z'), ('é'), ('f')) v(x) ORDER BY x",
            "NULL;_;1;A;b;é;f;Z",
        ),
        (
            "SELECT x FROM (VALUES ('b'), ('A'), ('a'), ('B')) v(x) ORDER BY x COLLATE Latin1_General_100_BIN2",
            "A;B;a;b",
        ),
    ],
    "trailing blanks": [
        ("SELECT CASE WHEN 'a' = 'a  ' AND N'a' = N'a ' AND 'a' <> ' a' THEN 1 END", "1"),
        ("SELECT CASE WHEN 'a' COLLATE Latin1_General_100_BIN2 = 'a ' THEN 1 END", "1"),
        ("SELECT LEN('a  '), DATALENGTH('a  ')", "1,3"),
        ("SELECT COUNT(*) FROM (VALUES ('a'), ('a ')) v(x) GROUP BY x", "2"),
    ],
    "unique keys": [
        (
            "CREATE TABLE t (a nvarchar(9) NOT NULL PRIMARY KEY, b varchar(9) UNIQUE); INSERT t VALUES (N'É', NULL)",
            None,
        ),
        ("INSERT t VALUES (N'é ', 'x')", "!2627"),
        ("INSERT t VALUES (N'e', NULL)", "!2627"),
    ],
    "averages of integers": [
        ("SELECT AVG(x), SUM(x) / COUNT(*) FROM (VALUES (1), (2), (2)) v(x)", "1,1"),
        ("SELECT AVG(x) OVER () FROM (VALUES (-1), (-2)) v(x)", "-1;-1"),
        ("SELECT 7 / 2, -7 / 2, -7 % 3", "3,-3,-1"),
    ],
    "decimal quotients and sums": [
        (
            "SELECT CAST(1 AS decimal(9,2)) / 3 AS q, SUM(x) AS s, AVG(x) AS a, SUM(x) + SUM(x) AS d INTO s"
            " FROM (VALUES (CAST(1.25 AS decimal(18,2)))) v(x)",
            None,
        ),
        (
            "SELECT precision, scale FROM sys.columns WHERE object_id = OBJECT_ID('s') ORDER BY column_id",
            "13,6;38,2;38,6;38,2",
        ),
        ("SELECT q, s, a, d FROM s", "0.333333,1.25,1.25,2.5"),
    ],
    "bytes of Unicode text": [
        ("SELECT DATALENGTH(N'abc'), DATALENGTH('abc'), DATALENGTH(CAST(N'a' AS nchar(3)))", "6,3,6"),
        ("SELECT HASHBYTES('SHA2_256', N'abc')", "13e228567e8249fce53337f25d7970de3bd68ab2653424c7b8f9fd05e33caedf"),
        ("SELECT HASHBYTES('SHA2_256', 'abc')", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ("SELECT CAST(N'ж€' AS varbinary(8)), CAST('€' AS varbinary(8)), CAST('ж' AS varbinary(8))", "3604ac20,80,3f"),
    ],
    "a number beside a text": [
        ("SELECT CASE WHEN '01' = 1 THEN 1 END, 1 + '2', CASE WHEN '1.50' = 1.5 THEN 1 END", "1,3,1"),
        ("SELECT CASE WHEN 'x' = 1 THEN 1 END", "!245"),
        ("SELECT CASE WHEN 'x' = 1.5 THEN 1 END", "!8114"),
        ("CREATE TABLE t (a varchar(9)); INSERT t VALUES ('1'), ('01'), ('2')", None),
        ("SELECT COUNT(*) FROM t WHERE a = 1", "2"),
    ],
    "the seventh digit of datetime2": [
        (
            "CREATE TABLE t (a datetime2(7), b datetime2(3)); INSERT t VALUES ('2024-01-01 00:00:00.1234567', '2024-01-01 00:00:00.1235')",
            None,
        ),
        (
            "SELECT CONVERT(varchar(30), a, 121), CONVERT(varchar(30), b, 121) FROM t",
            "2024-01-01 00:00:00.1234567,2024-01-01 00:00:00.124",
        ),
        ("SELECT COUNT(*) FROM t WHERE a > '2024-01-01 00:00:00.1234566' AND a < '2024-01-01 00:00:00.1234568'", "1"),
    ],
    "the offset of datetimeoffset": [
        ("CREATE TABLE t (a datetimeoffset(0) UNIQUE); INSERT t VALUES ('2024-01-01 10:00 +05:30')", None),
        ("SELECT CONVERT(varchar(30), a, 121), DATEPART(tz, a) FROM t", "2024-01-01 10:00:00 +05:30,330"),
        ("SELECT COUNT(*) FROM t WHERE a = '2024-01-01 04:30 +00:00'", "1"),
        ("INSERT t VALUES ('2024-01-01 04:30 +00:00')", "!2627"),
    ],
    "thirds of a hundredth in datetime": [
        (
            "CREATE TABLE t (a datetime); INSERT t VALUES ('2024-01-01 00:00:00.001'), ('2024-01-01 00:00:00.002'), ('2024-01-01 00:00:00.005'), ('2024-01-01 23:59:59.999')",
            None,
        ),
        (
            "SELECT CONVERT(varchar(23), a, 121) FROM t ORDER BY a",
            "2024-01-01 00:00:00.000;2024-01-01 00:00:00.003;2024-01-01 00:00:00.007;2024-01-02 00:00:00.000",
        ),
    ],
    "order of uniqueidentifier": [
        ("CREATE TABLE t (g uniqueidentifier PRIMARY KEY, n int)", None),
        (
            "INSERT t VALUES ('00000001-0000-0000-0000-000000000000', 1), ('00000000-0000-0000-0000-000000000001', 3), ('00000000-0000-0000-0001-000000000000', 2)",
            None,
        ),
        ("SELECT n FROM t ORDER BY g", "1;2;3"),
        ("SELECT n FROM t WHERE g > '00000000-0000-0000-0001-000000000000'", "3"),
    ],
    "explicit identity": [
        ("CREATE TABLE t (i int IDENTITY(10,5), v int); INSERT t VALUES (1); SELECT SCOPE_IDENTITY()", "10"),
        ("INSERT t (i, v) VALUES (1, 1)", "!544"),
        (
            "SET IDENTITY_INSERT t ON; INSERT t (i, v) VALUES (100, 1); SET IDENTITY_INSERT t OFF; INSERT t VALUES (2); SELECT MAX(i) FROM t",
            "105",
        ),
        ("UPDATE t SET i = 1", "!8102"),
    ],
    "case and length of names": [
        ("CREATE TABLE [MixedÄ] (Id int, [" + "n" * 128 + "] int)", None),
        ("SELECT name FROM sys.tables WHERE name = 'mixedä'", "MixedÄ"),
        ("SELECT MAX(LEN(name)) FROM sys.columns WHERE object_id = OBJECT_ID('MIXEDÄ')", "128"),
        ("CREATE TABLE mixedä (i int)", "!2714"),
        ("CREATE TABLE [" + "n" * 129 + "] (i int)", "!103"),
    ],
    "rowversion": [
        ("CREATE TABLE t (a int, v rowversion); INSERT t (a) VALUES (1), (2)", None),
        ("SELECT COUNT(DISTINCT CAST(v AS binary(8))), MIN(DATALENGTH(v)) FROM t", "2,8"),
        (
            "DECLARE @old binary(8) = (SELECT v FROM t WHERE a = 1); UPDATE t SET a = 1 WHERE a = 1; SELECT COUNT(*) FROM t WHERE a = 1 AND v > @old AND v = @@DBTS",
            "1",
        ),
        ("UPDATE t SET v = 0x01", "!272"),
    ],
    "stored text of CHECK": [
        (
            "CREATE TABLE t (p varchar(9), n int, d varbinary(max), CHECK (p IN ('a', 'b') AND n BETWEEN 1 AND 9 OR DATALENGTH(d) > 0))",
            None,
        ),
        (
            "SELECT definition FROM sys.check_constraints",
            "(([p]='b' OR [p]='a') AND [n]>=(1) AND [n]<=(9) OR datalength([d])>(0))",
        ),
        (
            "CREATE UNIQUE INDEX i ON t (n) WHERE p = 'a'; SELECT filter_definition FROM sys.indexes WHERE name = 'i'",
            "([p]='a')",
        ),
    ],
    "DENY": [
        ("CREATE TABLE t (a int); " + _WRITERS + "; GRANT SELECT TO u; GRANT SELECT ON t TO public", None),
        ("EXECUTE AS USER = 'u'; SELECT COUNT(*) FROM t", "0"),
        ("REVERT; DENY SELECT ON t TO r", None),
        ("EXECUTE AS USER = 'u'; SELECT HAS_PERMS_BY_NAME('t', 'OBJECT', 'SELECT')", "0"),
        ("SELECT COUNT(*) FROM t", "!229"),
        ("REVERT; SELECT COUNT(*) FROM t", "0"),
    ],
    "grants on the database": [
        (
            _WRITERS
            + "; GRANT CREATE TABLE, SELECT TO r; EXEC(N'CREATE SCHEMA s AUTHORIZATION u'); EXEC(N'CREATE SCHEMA o')",
            None,
        ),
        ("EXECUTE AS USER = 'u'; CREATE TABLE s.t (a int)", ""),
        ("CREATE TABLE o.t (a int)", "!2760"),
        ("CREATE VIEW s.v AS SELECT 1 AS a", "!262"),
        ("REVERT; CREATE TABLE o.later (a int); EXECUTE AS USER = 'u'; SELECT COUNT(*) FROM o.later", "0"),
        ("DELETE FROM o.later", "!229"),
        ("REVERT", ""),
    ],
    "chains of one owner": [
        ("CREATE TABLE t (a int); " + _WRITERS, None),
        ("CREATE PROCEDURE p AS INSERT t VALUES (1)", ""),
        ("GRANT EXECUTE ON p TO r; EXECUTE AS USER = 'u'; EXEC p", ""),
        ("INSERT t VALUES (2)", "!229"),
        ("REVERT; ALTER AUTHORIZATION ON t TO r; EXECUTE AS USER = 'u'; INSERT t VALUES (2)", ""),
        ("REVERT; SELECT COUNT(*) FROM t", "2"),
    ],
}
