-- How every transaction of the ledger begins, looks at itself and ends.
-- The begin batches carry no parameters: a parameterised batch would end its SET options together with itself. Where one
-- batch begins, reads and ends, that is as it should be. And a parameterised batch has to end with as many open
-- transactions as it began with (error 266): after the commit an empty one is opened, which ends with the connection.

-- name: require_lock
-- Refuses a write of any session that does not hold the control lock exclusively in its own transaction.
IF @@TRANCOUNT = 0 OR XACT_STATE() <> 1
        THROW 51000, 'DPONE_LEDGER: lock_not_held', 1;
    IF APPLOCK_MODE(N'public', N'dpone:composition-control:v1', N'Transaction') <> N'Exclusive'
        THROW 51000, 'DPONE_LEDGER: lock_not_held', 1;

-- name: begin_exclusive
-- Opens a SERIALIZABLE transaction and takes the control lock; answers its result and the transaction's identity.
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET LOCK_TIMEOUT {{lock_timeout_ms}};
SET TRANSACTION ISOLATION LEVEL SERIALIZABLE;
BEGIN TRANSACTION;
DECLARE @lock_result int;
EXEC @lock_result = sys.sp_getapplock @Resource = N'dpone:composition-control:v1', @LockMode = N'Exclusive', @LockOwner = N'Transaction', @LockTimeout = {{lock_timeout_ms}};
SELECT @lock_result, @@TRANCOUNT, XACT_STATE(), CURRENT_TRANSACTION_ID();
IF @lock_result >= 0
BEGIN
    {{audit}}
END;

-- name: begin_snapshot
-- Opens a read-only SNAPSHOT transaction, which waits for no writer and sees no half of a change.
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL SNAPSHOT;
BEGIN TRANSACTION;
SELECT 0, @@TRANCOUNT, XACT_STATE(), CURRENT_TRANSACTION_ID();
{{audit}}

-- name: begin_install
-- Opens the installer's transaction and takes the control lock in the still empty database.
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL SERIALIZABLE;
BEGIN TRANSACTION;
DECLARE @lock_result int;
EXEC @lock_result = sys.sp_getapplock @Resource = N'dpone:composition-control:v1', @LockMode = N'Exclusive', @LockOwner = N'Transaction', @LockTimeout = {{lock_timeout_ms}};
IF @lock_result < 0
    THROW 51000, 'DPONE_LEDGER: lock_not_granted', 1;

-- name: without_ledger
-- Ends a batch where there is no ledger: what follows would name tables that do not exist.
IF OBJECT_ID({{authority_text}}, N'U') IS NULL OR OBJECT_ID({{incarnation_text}}, N'U') IS NULL
BEGIN
    ROLLBACK TRANSACTION;
    RETURN;
END;

-- name: end_snapshot
-- Ends the transaction of a batch that read, in that batch: it wrote nothing.
ROLLBACK TRANSACTION;

-- name: identity
-- What must not change between two statements of one transaction.
SELECT @@TRANCOUNT, XACT_STATE(), CURRENT_TRANSACTION_ID();

-- name: same_transaction
-- Ends the batch before it does anything, unless the transaction is still the one that was begun.
DECLARE @transaction_id bigint = ?;
IF @@TRANCOUNT <> 1 OR XACT_STATE() <> 1 OR CURRENT_TRANSACTION_ID() <> @transaction_id
    THROW 51000, 'DPONE_LEDGER: transaction_identity', 1;

-- name: commit_writes
-- Commits the transaction of same_transaction, once. BEGIN TRAN is there because of error 266: see the head of the file.
IF @@TRANCOUNT <> 1 OR XACT_STATE() <> 1 OR CURRENT_TRANSACTION_ID() <> @transaction_id
    THROW 51000, 'DPONE_LEDGER: transaction_identity', 1;
COMMIT TRANSACTION;
SELECT @@TRANCOUNT;
BEGIN TRAN;

-- name: commit
-- Commits an installation, and only a transaction that is still open.
IF @@TRANCOUNT <> 1 OR XACT_STATE() <> 1
    THROW 51000, 'DPONE_LEDGER: transaction_identity', 1;
COMMIT TRANSACTION;
SELECT @@TRANCOUNT;

-- name: audit
-- Authority, incarnation as installed and as it is now, and the two catalog digests: five result sets, one round trip.
IF OBJECT_ID({{authority_text}}, N'U') IS NOT NULL AND OBJECT_ID({{incarnation_text}}, N'U') IS NOT NULL
    BEGIN
        SELECT [schema_version], [service_id] FROM {{control}}.[composition_authority];
        SELECT [extension_version], [database_guid], [recovery_fork_guid], [create_token], [checks_sha256] FROM {{extension}}.[incarnation];
        {{live_incarnation}}
        SELECT 'sha256:' + LOWER(CONVERT(varchar(64), HASHBYTES('SHA2_256', STRING_AGG(CONVERT(nvarchar(max), c.[line]), NCHAR(10)) WITHIN GROUP (ORDER BY c.[line])), 2))
        FROM ({{catalog}}) AS c;
        SELECT 'sha256:' + LOWER(CONVERT(varchar(64), HASHBYTES('SHA2_256', STRING_AGG(CONVERT(nvarchar(max), k.[line]), NCHAR(10)) WITHIN GROUP (ORDER BY k.[line])), 2))
        FROM ({{checks}}) AS k;
    END;

-- name: live_incarnation
-- The identity of the current database as the server has it now, and whether a commit that it acknowledges is on disk.
SELECT LOWER(CONVERT(char(36), r.[database_guid])), LOWER(CONVERT(char(36), r.[recovery_fork_guid])), CONVERT(varchar(33), d.[create_date], 126), CONVERT(int, d.[snapshot_isolation_state]), CONVERT(int, d.[delayed_durability])
FROM sys.databases AS d INNER JOIN sys.database_recovery_status AS r ON r.[database_id] = d.[database_id]
WHERE d.[database_id] = DB_ID();

-- name: catalog_lines
-- The catalog as lines, to name what differs when a digest does not agree.
SELECT c.[line] FROM ({{catalog}}) AS c ORDER BY c.[line];

-- name: checks_lines
-- The stored text of the CHECK constraints as lines.
SELECT k.[line] FROM ({{checks}}) AS k ORDER BY k.[line];

-- name: checks
-- One line for the text of each CHECK constraint. The server rewrites that text, so it is pinned when installed.
SELECT N'check-text|' COLLATE Latin1_General_100_BIN2 + s.[name] + N'|' + k.[name] + N'|' + k.[definition] AS [line]
FROM sys.check_constraints AS k INNER JOIN sys.schemas AS s ON s.[schema_id] = k.[schema_id]
WHERE s.[name] IN ({{control_text}}, {{extension_text}})

-- name: catalog
-- One line for every object, column, index column, foreign key column, constraint and trigger of the two schemas.
SELECT N'object|' COLLATE Latin1_General_100_BIN2 + s.[name] + N'|' + o.[name] + N'|' + RTRIM(o.[type]) + N'|' + ISNULL(p.[name], N'') AS [line]
FROM sys.objects AS o
INNER JOIN sys.schemas AS s ON s.[schema_id] = o.[schema_id]
LEFT JOIN sys.objects AS p ON p.[object_id] = o.[parent_object_id]
WHERE s.[name] IN ({{control_text}}, {{extension_text}})
UNION ALL
SELECT N'column|' COLLATE Latin1_General_100_BIN2 + s.[name] + N'|' + t.[name] + N'|' + CONVERT(nvarchar(11), c.[column_id]) + N'|' + c.[name] + N'|' + y.[name]
    + N'|' + CONVERT(nvarchar(11), c.[max_length]) + N'|' + CONVERT(nvarchar(11), c.[precision]) + N'|' + CONVERT(nvarchar(11), c.[scale])
    + N'|' + CONVERT(nvarchar(11), c.[is_nullable]) + N'|' + ISNULL(c.[collation_name], N'')
    + N'|' + CONVERT(nvarchar(11), c.[is_identity]) + N'|' + CONVERT(nvarchar(11), c.[is_computed])
FROM sys.columns AS c
INNER JOIN sys.tables AS t ON t.[object_id] = c.[object_id]
INNER JOIN sys.schemas AS s ON s.[schema_id] = t.[schema_id]
INNER JOIN sys.types AS y ON y.[user_type_id] = c.[user_type_id]
WHERE s.[name] IN ({{control_text}}, {{extension_text}})
UNION ALL
SELECT N'index|' COLLATE Latin1_General_100_BIN2 + s.[name] + N'|' + t.[name] + N'|' + i.[name] + N'|' + i.[type_desc]
    + N'|' + CONVERT(nvarchar(11), i.[is_unique]) + N'|' + CONVERT(nvarchar(11), i.[is_primary_key]) + N'|' + CONVERT(nvarchar(11), i.[is_disabled])
    + N'|' + CONVERT(nvarchar(11), i.[has_filter]) + N'|' + CONVERT(nvarchar(11), ic.[key_ordinal]) + N'|' + c.[name]
FROM sys.indexes AS i
INNER JOIN sys.tables AS t ON t.[object_id] = i.[object_id]
INNER JOIN sys.schemas AS s ON s.[schema_id] = t.[schema_id]
INNER JOIN sys.index_columns AS ic ON ic.[object_id] = i.[object_id] AND ic.[index_id] = i.[index_id]
INNER JOIN sys.columns AS c ON c.[object_id] = ic.[object_id] AND c.[column_id] = ic.[column_id]
WHERE s.[name] IN ({{control_text}}, {{extension_text}})
UNION ALL
SELECT N'foreign|' COLLATE Latin1_General_100_BIN2 + s.[name] + N'|' + t.[name] + N'|' + f.[name] + N'|' + r.[name]
    + N'|' + CONVERT(nvarchar(11), f.[is_disabled]) + N'|' + CONVERT(nvarchar(11), f.[is_not_trusted])
    + N'|' + CONVERT(nvarchar(11), f.[delete_referential_action]) + N'|' + CONVERT(nvarchar(11), f.[update_referential_action])
    + N'|' + CONVERT(nvarchar(11), fc.[constraint_column_id]) + N'|' + pc.[name] + N'|' + rc.[name]
FROM sys.foreign_keys AS f
INNER JOIN sys.schemas AS s ON s.[schema_id] = f.[schema_id]
INNER JOIN sys.tables AS t ON t.[object_id] = f.[parent_object_id]
INNER JOIN sys.tables AS r ON r.[object_id] = f.[referenced_object_id]
INNER JOIN sys.foreign_key_columns AS fc ON fc.[constraint_object_id] = f.[object_id]
INNER JOIN sys.columns AS pc ON pc.[object_id] = fc.[parent_object_id] AND pc.[column_id] = fc.[parent_column_id]
INNER JOIN sys.columns AS rc ON rc.[object_id] = fc.[referenced_object_id] AND rc.[column_id] = fc.[referenced_column_id]
WHERE s.[name] IN ({{control_text}}, {{extension_text}})
UNION ALL
SELECT N'check|' COLLATE Latin1_General_100_BIN2 + s.[name] + N'|' + t.[name] + N'|' + k.[name]
    + N'|' + CONVERT(nvarchar(11), k.[is_disabled]) + N'|' + CONVERT(nvarchar(11), k.[is_not_trusted])
FROM sys.check_constraints AS k
INNER JOIN sys.schemas AS s ON s.[schema_id] = k.[schema_id]
INNER JOIN sys.tables AS t ON t.[object_id] = k.[parent_object_id]
WHERE s.[name] IN ({{control_text}}, {{extension_text}})
UNION ALL
SELECT N'trigger|' COLLATE Latin1_General_100_BIN2 + s.[name] + N'|' + t.[name] + N'|' + g.[name]
    + N'|' + CONVERT(nvarchar(11), g.[is_disabled]) + N'|' + CONVERT(nvarchar(11), g.[is_instead_of_trigger])
    + N'|' + CONVERT(nvarchar(11), m.[uses_ansi_nulls]) + N'|' + CONVERT(nvarchar(11), m.[uses_quoted_identifier])
    + N'|' + ISNULL(CONVERT(nvarchar(11), m.[execute_as_principal_id]), N'') + N'|' + CONVERT(varchar(64), HASHBYTES('SHA2_256', m.[definition]), 2)
FROM sys.triggers AS g
INNER JOIN sys.tables AS t ON t.[object_id] = g.[parent_id]
INNER JOIN sys.schemas AS s ON s.[schema_id] = t.[schema_id]
INNER JOIN sys.sql_modules AS m ON m.[object_id] = g.[object_id]
WHERE s.[name] IN ({{control_text}}, {{extension_text}})
