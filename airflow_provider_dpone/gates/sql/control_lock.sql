-- The session that holds the ledger's one lock. Runs in the control database, as the closer, who may see and end sessions.

-- name: silent
-- Sessions that hold this very resource, not one with its text in the name, in a transaction, and work on no batch. The description is public's number, the name's first 32 characters in brackets, and a hash.
FROM sys.dm_tran_locks AS l
INNER JOIN sys.dm_exec_sessions AS s ON s.[session_id] = l.[request_session_id]
WHERE l.[resource_type] = 'APPLICATION'
    AND l.[resource_database_id] = DB_ID()
    AND l.[resource_description] COLLATE Latin1_General_100_BIN2 LIKE N'0:[[]dpone:composition-control:v1]:(%'
    AND l.[resource_description] COLLATE Latin1_General_100_BIN2 NOT LIKE N'%]:(%]:(%'
    AND l.[request_mode] = 'X'
    AND l.[request_status] = 'GRANT'
    AND l.[request_owner_type] = 'TRANSACTION'
    AND s.[status] = 'sleeping'

-- name: silent_holder
-- The holder and since when it has sent nothing: since its login, where no request of it ever ended.
SELECT s.[session_id], CONVERT(varchar(33), s.[login_time], 126), s.[original_security_id], s.[original_login_name], COALESCE(s.[host_name], N'an unnamed host'),
    CONVERT(varchar(33), s.[last_request_end_time], 126),
    DATEDIFF(second, CASE WHEN s.[last_request_end_time] > s.[login_time] THEN s.[last_request_end_time] ELSE s.[login_time] END, GETDATE())
{{silent}};

-- name: end_silent_holder
-- Ends the session that was seen, if it still is that session, still holds the lock, and has sent nothing since: 1; and 0 where it is left alone.
DECLARE @sid varbinary(85) = ?;
DECLARE @login_time varchar(33) = ?;
DECLARE @heard varchar(33) = ?;
DECLARE @silent int = (SELECT COUNT(*)
{{silent}}
    AND s.[session_id] = {{session}}
    AND s.[original_security_id] = @sid
    AND CONVERT(varchar(33), s.[login_time], 126) = @login_time
    AND COALESCE(CONVERT(varchar(33), s.[last_request_end_time], 126), '') = COALESCE(@heard, ''));
IF @silent = 1
    KILL {{session}};
SELECT @silent;
