-- name: reader
-- The disabled account as which the LOGON trigger reads the gate rows. Nobody knows its password.
USE [master];
GO
CREATE LOGIN {{reader}} WITH PASSWORD = {{hash}} HASHED, CHECK_EXPIRATION = OFF, CHECK_POLICY = OFF;
GO
ALTER LOGIN {{reader}} DISABLE;
GO
USE {{database}};
GO
CREATE USER {{reader}} FOR LOGIN {{reader}};
GO
GRANT SELECT ON OBJECT::{{control}}.[composition_login_gates] TO {{reader}};
GO
USE [master];
GO

-- name: trigger
-- Refuses a login of ours unless its gate is READY; every other login passes before anything is read that could fail.
CREATE TRIGGER {{trigger}} ON ALL SERVER WITH EXECUTE AS {{reader_text}} FOR LOGON
AS
BEGIN
    DECLARE @sid varbinary(85) = SUSER_SID(ORIGINAL_LOGIN());
    IF @sid IS NULL OR DATALENGTH(@sid) <> 16 OR SUBSTRING(@sid, 1, 6) <> {{tag}}
        RETURN;
    IF NOT EXISTS (
        SELECT 1
        FROM {{database}}.{{control}}.[composition_login_gates] WITH (HOLDLOCK, ROWLOCK)
        WHERE [login_sid] = @sid AND [login_name] = ORIGINAL_LOGIN() AND [gate_state] = 'READY'
    )
        ROLLBACK TRANSACTION;
END;

-- name: installed
-- The trigger as the server has it: text, state, the account it runs as, its event, and whether that account may read the gate rows.
SELECT m.[definition], t.[is_disabled], p.[name], p.[is_disabled], e.[type_desc],
    (SELECT SUM(CASE WHEN r.[state] IN ('G', 'W') THEN 1 ELSE -1000 END)
     FROM sys.database_permissions AS r
     INNER JOIN sys.database_principals AS u ON u.[principal_id] = r.[grantee_principal_id]
     WHERE u.[sid] = p.[sid] AND r.[class] = 1 AND r.[permission_name] = N'SELECT' AND r.[major_id] = OBJECT_ID({{gates_text}}, N'U'))
FROM sys.server_triggers AS t
INNER JOIN sys.server_sql_modules AS m ON m.[object_id] = t.[object_id]
INNER JOIN sys.server_trigger_events AS e ON e.[object_id] = t.[object_id]
LEFT JOIN sys.server_principals AS p ON p.[principal_id] = m.[execute_as_principal_id]
WHERE t.[name] = ?;

-- name: reader_probe
-- Asked as the gate reader: can it read the gate rows? The session is itself again before it answers, for whoever reads one row only.
DECLARE @gates nvarchar(517) = ?;
DECLARE @may int;
EXECUTE AS USER = {{reader_text}};
SET @may = HAS_PERMS_BY_NAME(@gates, N'OBJECT', N'SELECT');
REVERT;
SELECT COALESCE(@may, 0);
