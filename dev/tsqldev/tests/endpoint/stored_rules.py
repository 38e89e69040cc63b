"""What tables keep, compare and refuse: batches in order, and the answer of each.

The answer is the last result set, fields joined by commas and rows by semicolons, bytes in hexadecimal; `!n` is an
error number; None where nothing is asked.
"""

Rules = list[tuple[str, str | None]]

STORED: dict[str, Rules] = {
    "keys follow the collation": [
        ("CREATE TABLE u (k varchar(20) NOT NULL PRIMARY KEY, n int NULL UNIQUE)", None),
        ("INSERT u VALUES ('Abc',1)", None),
        ("INSERT u VALUES ('aBC ',2)", "!2627"),
        ("INSERT u VALUES ('x',NULL)", None),
        ("INSERT u VALUES ('y',NULL)", "!2627"),
        ("CREATE TABLE b (k varchar(20) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY)", None),
        ("INSERT b VALUES ('a'),('A')", None),
        ("INSERT b VALUES ('a  ')", "!2627"),
        ("SELECT k FROM b WHERE k='A' ORDER BY k", "A"),
        ("SELECT k FROM b ORDER BY k", "A;a"),
    ],
    "identity": [
        ("CREATE TABLE i (id int IDENTITY(1,1) PRIMARY KEY, v int)", None),
        ("INSERT i (id,v) VALUES (5,1)", "!544"),
        ("INSERT i VALUES (7); SELECT SCOPE_IDENTITY(), @@IDENTITY, IDENT_CURRENT('i')", "1,1,1"),
        ("SET IDENTITY_INSERT i ON; INSERT i (id,v) VALUES (10,1); SELECT SCOPE_IDENTITY()", "10"),
        ("INSERT i (v) VALUES (1)", "!545"),
        ("SET IDENTITY_INSERT i OFF; INSERT i (v) VALUES (2); SELECT MAX(id) FROM i", "11"),
        ("UPDATE i SET id=3", "!8102"),
        ("BEGIN TRAN; INSERT i(v) VALUES(3); ROLLBACK; INSERT i(v) VALUES(4); SELECT MAX(id) FROM i", "13"),
    ],
    "rowversion": [
        ("CREATE TABLE r (a int, rv rowversion)", None),
        ("INSERT r(a) VALUES (1),(2)", None),
        (
            "DECLARE @b binary(8)=(SELECT rv FROM r WHERE a=1); UPDATE r SET a=1 WHERE a=1; SELECT CASE WHEN rv>@b THEN 1 ELSE 0 END FROM r WHERE a=1",
            "1",
        ),
        ("INSERT r VALUES (1,0x01)", "!273"),
        ("UPDATE r SET rv=0x01", "!272"),
        ("SELECT CASE WHEN @@DBTS=(SELECT TOP 1 rv FROM r ORDER BY rv DESC) THEN 1 ELSE 0 END", "1"),
        (
            "SELECT name, system_type_id, max_length FROM sys.columns WHERE object_id=OBJECT_ID('r') AND name='rv'",
            "rv,189,8",
        ),
    ],
    "uniqueidentifier order": [
        ("CREATE TABLE g (id uniqueidentifier)", None),
        (
            "INSERT g VALUES ('00000000-0000-0000-0000-010000000000'),('01000000-0000-0000-0000-000000000000'),('00000000-0000-0000-0100-000000000000'),('00000000-0000-0100-0000-000000000000'),('00000000-0100-0000-0000-000000000000')",
            None,
        ),
        (
            "SELECT CONVERT(varchar(36),id) FROM g ORDER BY id",
            "01000000-0000-0000-0000-000000000000;00000000-0100-0000-0000-000000000000;00000000-0000-0100-0000-000000000000;00000000-0000-0000-0100-000000000000;00000000-0000-0000-0000-010000000000",
        ),
        ("SELECT MAX(id) FROM g", "00000000-0000-0000-0000-010000000000"),
    ],
    "datetimeoffset is an instant": [
        ("CREATE TABLE o (d datetimeoffset(0) PRIMARY KEY)", None),
        ("INSERT o VALUES ('2024-01-01 10:00 +01:00')", None),
        ("INSERT o VALUES ('2024-01-01 09:00 +00:00')", "!2627"),
        ("SELECT COUNT(*) FROM o WHERE d='2024-01-01 09:00 +00:00'", "1"),
        (
            "SELECT COUNT(*) FROM (SELECT d FROM o UNION SELECT CAST('2024-01-01 09:00 +00:00' AS datetimeoffset(0))) x",
            "1",
        ),
    ],
    "bytes compare as if zeros followed": [
        ("CREATE TABLE vb (b varbinary(10) PRIMARY KEY)", None),
        ("INSERT vb VALUES (0x01)", None),
        ("INSERT vb VALUES (0x0100)", "!2627"),
        ("SELECT COUNT(*) FROM vb WHERE b=0x0100", "1"),
        ("CREATE TABLE bi (b binary(4) PRIMARY KEY)", None),
        ("INSERT bi VALUES (0x01)", None),
        ("SELECT b FROM bi WHERE b=0x01", "01000000"),
        ("SELECT COUNT(*) FROM bi WHERE b=0x0100000000", "1"),
    ],
    "names": [
        (
            "CREATE TABLE [Name With Space and Ünïcode xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx] ([Col.One] int, [col]]two] int)",
            None,
        ),
        ("SELECT LEN(name) FROM sys.tables WHERE name LIKE 'Name With%'", None),
        (
            "CREATE TABLE [yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy] ([zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz] int)",
            None,
        ),
        (
            "SELECT LEN(t.name), LEN(c.name) FROM sys.tables t JOIN sys.columns c ON c.object_id=t.object_id WHERE t.name LIKE 'yyy%'",
            "128,128",
        ),
        (
            "CREATE TABLE [yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy] (a int)",
            "!103",
        ),
        ("CREATE TABLE MixedCase (Id int, VaLue varchar(5))", None),
        ("SELECT name FROM sys.tables WHERE name='mixedcase'", "MixedCase"),
        ("SELECT ID, value FROM MIXEDCASE", ""),
        ("CREATE TABLE mixedcase (a int)", "!2714"),
        ("SELECT name FROM sys.columns WHERE object_id=OBJECT_ID('mixedCASE')", "Id;VaLue"),
    ],
    "assignment": [
        ("CREATE TABLE t1 (a varchar(3) NOT NULL, c char(5), n nvarchar(3), d decimal(5,2), t tinyint)", None),
        ("INSERT t1 VALUES ('abcd','x',N'x',1,1)", "!2628"),
        ("INSERT t1 VALUES ('abc   ','x',N'x',1,1)", None),
        ("SELECT DATALENGTH(a),DATALENGTH(c) FROM t1", "3,5"),
        ("INSERT t1 VALUES (NULL,'x','x',1,1)", "!515"),
        ("INSERT t1 VALUES ('a','x','x',12345,1)", "!8115"),
        ("INSERT t1 VALUES ('a','x','x',1,256)", "!220"),
        ("INSERT t1 VALUES ('a','x','x',1,'x')", "!245"),
        ("INSERT t1 VALUES ('a','x','x','x',1)", "!8114"),
        ("INSERT t1 VALUES ('a','x','x',1)", "!213"),
        ("INSERT t1 (a) VALUES ('a','b')", "!110"),
        ("INSERT t1 (a,c) VALUES ('a')", "!109"),
        ("INSERT t1 (zz) VALUES (1)", "!207"),
    ],
    "set operations and order": [
        ("SELECT 1 UNION SELECT 'a'", "!245"),
        ("SELECT 1 AS x UNION ALL SELECT 1.5", "1;1.5"),
        ("SELECT 'a' UNION SELECT 'A'", "a"),
        ("SELECT 'a' AS x UNION ALL SELECT NULL", "a;NULL"),
        ("SELECT CAST('2024-01-01' AS date) UNION SELECT 1", "!206"),
        ("SELECT 1,2 UNION SELECT 1", "!205"),
        ("SELECT 'a' EXCEPT SELECT 'A '", ""),
        ("SELECT 'a' INTERSECT SELECT 'A '", "a"),
        ("SELECT x FROM (VALUES ('b'),('A'),('a'),('_'),('1'),('Z')) v(x) WHERE x NOT IN ('a') ORDER BY x", "_;1;b;Z"),
        ("SELECT COUNT(DISTINCT x) FROM (VALUES ('b'),('A'),('a')) v(x)", "2"),
        ("SELECT COUNT(*) FROM (VALUES ('b'),('A'),('a'),('a ')) v(x) GROUP BY x ORDER BY x", "3;1"),
        ("SELECT x FROM (VALUES (NULL),(1)) v(x) ORDER BY x", "NULL;1"),
        ("SELECT x FROM (VALUES (NULL),(1)) v(x) ORDER BY x DESC", "1;NULL"),
        ("SELECT COUNT(*), COUNT(x), MIN(x) FROM (VALUES (NULL),(1)) v(x)", "2,1,1"),
        ("SELECT SUM(x) FROM (SELECT 1 AS x WHERE 1=0) v", "NULL"),
        ("SELECT 1 WHERE NULL=NULL", ""),
        ("SELECT 1 WHERE NULL NOT IN (1)", ""),
        ("SELECT 1 WHERE 2 NOT IN (1,NULL)", ""),
        ("SELECT TOP (1) x FROM (VALUES (1),(2)) v(x) ORDER BY x DESC", "2"),
        ("SELECT TOP (1) WITH TIES x FROM (VALUES (1),(1),(2)) v(x) ORDER BY x", "1;1"),
        ("SELECT x FROM (VALUES (1),(2),(3)) v(x) ORDER BY x OFFSET 1 ROWS FETCH NEXT 1 ROWS ONLY", "2"),
    ],
    "foreign keys follow the collation": [
        (
            "CREATE TABLE p (a varchar(5) NOT NULL PRIMARY KEY); INSERT p VALUES ('A'); CREATE TABLE ch (a varchar(5) REFERENCES p)",
            None,
        ),
        ("INSERT ch VALUES ('a')", None),
        ("SELECT COUNT(*) FROM ch", "1"),
        ("DELETE p", "!547"),
        ("INSERT ch VALUES ('b')", "!547"),
    ],
    "checks and computed columns": [
        ("CREATE TABLE ck (a int CHECK (a IN (1,2,3)), b varchar(5) CHECK (b='X'), c AS a*2)", None),
        ("INSERT ck VALUES (1,'x')", None),
        ("INSERT ck VALUES (4,'x')", "!547"),
        ("INSERT ck VALUES (NULL,NULL)", None),
        (
            "SELECT definition FROM sys.check_constraints WHERE parent_object_id=OBJECT_ID('ck') ORDER BY definition",
            "([a]=(3) OR [a]=(2) OR [a]=(1));([b]='X')",
        ),
        ("SELECT c FROM ck WHERE a=1", "2"),
        ("INSERT ck (a,b,c) VALUES (1,'x',1)", "!271"),
        (
            "CREATE TABLE df (a int DEFAULT 5, b varchar(5) DEFAULT 'x', c datetime2(3) DEFAULT SYSUTCDATETIME(), d int NOT NULL CONSTRAINT df_d DEFAULT (1+2), e uniqueidentifier DEFAULT NEWID())",
            None,
        ),
        ("INSERT df DEFAULT VALUES; SELECT a,b,d FROM df", "5,x,3"),
        (
            "SELECT definition FROM sys.default_constraints WHERE parent_object_id=OBJECT_ID('df') ORDER BY parent_column_id",
            "((5));('x');(sysutcdatetime());((1)+(2));(newid())",
        ),
        ("CREATE UNIQUE NONCLUSTERED INDEX ux ON ck (a) WHERE [b]='x'", None),
        ("SELECT filter_definition, has_filter FROM sys.indexes WHERE name='ux'", "([b]='x'),True"),
    ],
}
