-- name: control_database
-- The database that the ledger's sessions work in.
SELECT DB_NAME();

-- name: enrolled_databases
-- The enrolled databases of an operation's guards, with their one writer role and managed schemas.
SELECT e.[guard_id], e.[database_name], e.[database_id], e.[database_guid], e.[create_token], e.[writer_role]
FROM {{control}}.[composition_mssql_enrollments] AS e
INNER JOIN {{control}}.[composition_operation_domains] AS d ON d.[guard_id] = e.[guard_id]
WHERE d.[operation_key] = ?
ORDER BY e.[database_id];

-- name: forgetful_databases
-- Enrolled databases of an operation's guards that may acknowledge a commit before it is on disk.
SELECT f.[name]
FROM {{control}}.[composition_mssql_enrollments] AS e
INNER JOIN {{control}}.[composition_operation_domains] AS o ON o.[guard_id] = e.[guard_id]
INNER JOIN sys.databases AS f ON f.[database_id] = e.[database_id]
WHERE o.[operation_key] = ? AND f.[delayed_durability] <> 0
ORDER BY f.[name];

-- name: this_login
-- The journaled login, for the statements that follow in one batch.
DECLARE @sid varbinary(85) = ?;
DECLARE @login nvarchar(128) = ?;

-- name: logins
-- Every server principal that has the journaled SID or the journaled name. Follows this_login.
SELECT p.[name], p.[sid], p.[type], p.[is_disabled] FROM sys.server_principals AS p WHERE p.[sid] = @sid OR p.[name] = @login;

-- name: create_login
-- The attempt's login with its journaled SID. The password is a hash that was made on the client; policy cannot see it.
CREATE LOGIN {{login}} WITH PASSWORD = {{hash}} HASHED, SID = {{sid}}, DEFAULT_DATABASE = {{database}}, CHECK_EXPIRATION = OFF, CHECK_POLICY = OFF;

-- name: leave_tombstone
-- A login that was never created is created now, to be disabled at once. Answers whether. Follows this_login.
DECLARE @tombstone int = CASE WHEN EXISTS (SELECT 1 FROM sys.server_principals AS p WHERE p.[sid] = @sid OR p.[name] = @login) THEN 0 ELSE 1 END;
SELECT @tombstone;
IF @tombstone = 1
    {{create_login}}

-- name: disable_login
-- Nobody can log in with it any more, if it is exactly the journaled one. Sessions stay. Follows this_login.
IF EXISTS (SELECT 1 FROM sys.server_principals AS p WHERE p.[sid] = @sid AND p.[name] COLLATE Latin1_General_100_BIN2 = @login)
    ALTER LOGIN {{login}} DISABLE;

-- name: create_user
-- One dynamic batch in the target database: the user and its membership in the bounded role.
USE {{database}};
CREATE USER {{login}} FOR LOGIN {{login}};
ALTER ROLE {{role}} ADD MEMBER {{login}};

-- name: execute
-- Runs a batch that changes the database it works in; the caller's database stays.
EXEC sys.sp_executesql ?;

-- name: membership
-- Whether the attempt's user is in the target with the login's SID, as a member of the bounded role. Follows this_login.
SELECT COUNT(*)
FROM {{database}}.sys.database_principals AS u
INNER JOIN {{database}}.sys.database_role_members AS m ON m.[member_principal_id] = u.[principal_id]
INNER JOIN {{database}}.sys.database_principals AS r ON r.[principal_id] = m.[role_principal_id]
WHERE u.[sid] = @sid AND u.[name] = @login AND r.[name] = ?;

-- name: own_session
-- The session id of the connection that asks.
SELECT CONVERT(int, @@SPID);

-- name: visibility
-- Whether this account sees server state (old or 2022 name), logins and another session: ends the batch unless it does.
DECLARE @sees_state int = CASE WHEN HAS_PERMS_BY_NAME(NULL, NULL, 'VIEW SERVER STATE') = 1 OR HAS_PERMS_BY_NAME(NULL, NULL, 'VIEW SERVER PERFORMANCE STATE') = 1 THEN 1 ELSE 0 END;
DECLARE @sees_definitions int = COALESCE(HAS_PERMS_BY_NAME(NULL, NULL, 'VIEW ANY DEFINITION'), 0);
DECLARE @sees_others int = (SELECT COUNT(*) FROM sys.dm_exec_sessions AS s WHERE s.[session_id] = ?);
SELECT @sees_state, @sees_definitions, @sees_others;
IF @sees_state = 0 OR @sees_definitions = 0 OR @sees_others <> 1
    RETURN;

-- name: sessions
-- Sessions whose original or present SID is the attempt's, and every session that is still logging in. Follows this_login.
SELECT CONVERT(int, s.[session_id]),
    CONVERT(varchar(33), s.[login_time], 126),
    s.[status],
    s.[open_transaction_count],
    CASE WHEN s.[original_security_id] = @sid OR s.[security_id] = @sid THEN 1 ELSE 0 END
FROM sys.dm_exec_sessions AS s
WHERE s.[is_user_process] = 1
    AND (s.[original_security_id] = @sid OR s.[security_id] = @sid OR s.[login_time] < CONVERT(datetime, '1901-01-01T00:00:00', 126))
ORDER BY s.[session_id];

-- name: end_session
-- Ends one session after its id, its login time and its SID were compared again: session ids are reused.
DECLARE @sid varbinary(85) = ?;
DECLARE @login_time varchar(33) = ?;
IF EXISTS (
    SELECT 1 FROM sys.dm_exec_sessions AS s
    WHERE s.[session_id] = {{session}}
        AND s.[original_security_id] = @sid
        AND CONVERT(varchar(33), s.[login_time], 126) = @login_time
)
    KILL {{session}};

-- name: transactions
-- How many transactions are bound to sessions of the attempt's SID. Follows this_login.
SELECT COUNT(*)
FROM sys.dm_tran_session_transactions AS t
INNER JOIN sys.dm_exec_sessions AS s ON s.[session_id] = t.[session_id]
WHERE s.[original_security_id] = @sid OR s.[security_id] = @sid;

-- name: orphaned
-- Databases in which a transaction without a session holds locks: orphaned distributed (-2) or deferred recovery (-3).
SELECT DISTINCT l.[resource_database_id], CONVERT(int, l.[request_session_id])
FROM sys.dm_tran_locks AS l
WHERE l.[request_session_id] IN (-2, -3);
