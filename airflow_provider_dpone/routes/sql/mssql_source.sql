-- name: snapshot_allowed
-- Whether this database keeps row versions, so that one statement after another reads one state.
SELECT CONVERT(int, [snapshot_isolation_state]), DB_NAME() FROM [sys].[databases] WHERE [database_id] = DB_ID();

-- name: begin_snapshot
-- Everything from here to the rollback reads the same committed state.
SET TRANSACTION ISOLATION LEVEL SNAPSHOT;
BEGIN TRANSACTION;

-- name: columns
-- The source columns in order, with what decides their exact carriage.
SELECT c.[name], t.[name], CONVERT(int, c.[max_length]), CONVERT(int, c.[precision]), CONVERT(int, c.[scale]),
       CONVERT(int, c.[is_nullable])
FROM [sys].[columns] AS c
INNER JOIN [sys].[types] AS t ON t.[user_type_id] = c.[user_type_id]
WHERE c.[object_id] = OBJECT_ID(?)
ORDER BY c.[column_id];

-- name: measure
-- Rows and stored bytes of the snapshot, before the first row is read.
SELECT COUNT_BIG(*), COALESCE(SUM({{bytes}}), 0) FROM {{table}}

-- name: column_bytes
-- Bytes that one column's value takes.
CAST(COALESCE(DATALENGTH({{column}}), 0) AS bigint)

-- name: rows
-- Every row once; each column in the form that the driver carries exactly.
SELECT {{columns}} FROM {{table}}

-- name: plain
-- A value that the driver carries as it is.
{{column}}

-- name: bit
-- 0 or 1 as a number.
CAST({{column}} AS tinyint)

-- name: money
-- Four decimal places.
CAST({{column}} AS decimal(19, 4))

-- name: days
-- Days since 1970-01-01.
DATEDIFF(day, CAST('1970-01-01' AS date), {{column}})

-- name: ticks
-- 100-nanosecond ticks since 1970-01-01: the driver's own timestamps lose the seventh digit.
DATEDIFF_BIG(second, CAST('1970-01-01' AS datetime2(7)), {{column}}) * 10000000 + DATEPART(nanosecond, {{column}}) / 100

-- name: datetime_ticks
-- datetime's thirds of a millisecond, as SQL Server rounds and prints them.
DATEDIFF_BIG(second, CAST('1970-01-01' AS datetime2(7)), CAST({{column}} AS datetime2(3))) * 10000000
+ DATEPART(nanosecond, CAST({{column}} AS datetime2(3))) / 100

-- name: guid
-- Text: the wire form has its first eight bytes swapped.
CONVERT(char(36), {{column}})

-- name: time_text
-- Time of day as text with every digit.
CONVERT(varchar(16), {{column}}, 121)

-- name: offset_text
-- Local time with its offset as text: an instant alone would lose the offset.
CONVERT(varchar(34), {{column}}, 121)
