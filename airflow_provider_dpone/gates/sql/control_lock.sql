-- The session that holds the ledger's one lock. Runs in the control database, as the closer, who may see and end sessions.

-- name: silent_holder
-- The holder, if its transaction is open while it sends nothing: a session that works on a batch is not silent.
SELECT s.[session_id], CONVERT(varchar(33), s.[login_time], 126), s.[original_security_id], s.[original_login_name], s.[host_name], DATEDIFF(second, s.[last_request_end_time], GETDATE())
FROM sys.dm_tran_locks AS l
INNER JOIN sys.dm_exec_sessions AS s ON s.[session_id] = l.[request_session_id]
WHERE l.[resource_type] = 'APPLICATION'
    AND l.[resource_database_id] = DB_ID()
    AND l.[resource_description] LIKE '%dpone:composition-control:v1%'
    AND l.[request_mode] = 'X'
    AND l.[request_status] = 'GRANT'
    AND s.[status] = 'sleeping';
