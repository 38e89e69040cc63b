-- name: identity
-- What tells one incarnation of a database from the next one under the same name.
SELECT d.[database_id], LOWER(CONVERT(char(36), r.[database_guid])), CONVERT(varchar(33), d.[create_date], 126)
FROM sys.databases AS d
INNER JOIN sys.database_recovery_status AS r ON r.[database_id] = d.[database_id]
WHERE d.[name] = ?;

-- name: server_violations
-- What the server shows of the database without entering it: its settings, and whether the controller owns it.
DECLARE @database nvarchar(128) = ?;
DECLARE @owner nvarchar(128) = ?;
SELECT 'state' AS [reason], d.[name] AS [named] FROM sys.databases AS d WHERE d.[name] = @database AND d.[state] <> 0
UNION ALL
SELECT 'containment', d.[name] FROM sys.databases AS d WHERE d.[name] = @database AND d.[containment] <> 0
UNION ALL
SELECT 'trustworthy', d.[name] FROM sys.databases AS d WHERE d.[name] = @database AND d.[is_trustworthy_on] = 1
UNION ALL
SELECT 'chaining', d.[name] FROM sys.databases AS d WHERE d.[name] = @database AND d.[is_db_chaining_on] = 1
UNION ALL
SELECT 'delayed_durability', d.[name] FROM sys.databases AS d WHERE d.[name] = @database AND d.[delayed_durability] <> 0
UNION ALL
SELECT 'server_chaining', c.[name] FROM sys.configurations AS c
WHERE c.[name] = N'cross db ownership chaining' AND CONVERT(int, c.[value_in_use]) <> 0
UNION ALL
SELECT 'owner', d.[name] FROM sys.databases AS d WHERE d.[name] = @database AND d.[owner_sid] <> COALESCE(SUSER_SID(@owner), 0x);

-- name: violations
-- Every way in which the inside of a target is not as it was provisioned: reason and what it names. Ends the batch if any.
DECLARE @violations TABLE ([reason] varchar(32) NOT NULL, [named] nvarchar(128) NULL);
DECLARE @guard varchar(71) = ?;
DECLARE @role nvarchar(128) = ?;
DECLARE @managed TABLE ([name] nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL, [schema_id] int NULL, [principal_id] int NULL);
INSERT INTO @managed ([name], [schema_id], [principal_id])
SELECT m.[schema_name], s.[schema_id], s.[principal_id]
FROM {{control}}.[composition_mssql_managed_schemas] AS m
LEFT JOIN {{database}}.sys.schemas AS s ON s.[name] = m.[schema_name] COLLATE DATABASE_DEFAULT
WHERE m.[guard_id] = @guard;
DECLARE @role_id int = (
    SELECT p.[principal_id] FROM {{database}}.sys.database_principals AS p
    WHERE p.[name] = @role AND p.[type] = 'R' AND p.[is_fixed_role] = 0 AND p.[owning_principal_id] = 1);
INSERT INTO @violations ([reason], [named])
SELECT 'role_owner' AS [reason], @role AS [named] WHERE @role_id IS NULL
UNION ALL
SELECT 'role_member', u.[name]
FROM {{database}}.sys.database_role_members AS m
INNER JOIN {{database}}.sys.database_principals AS u ON u.[principal_id] = m.[member_principal_id]
WHERE m.[role_principal_id] = @role_id
    AND (u.[sid] IS NULL OR DATALENGTH(u.[sid]) <> 16 OR SUBSTRING(u.[sid], 1, 6) <> {{tag}})
UNION ALL
SELECT 'role_nested', r.[name]
FROM {{database}}.sys.database_role_members AS m
INNER JOIN {{database}}.sys.database_principals AS r ON r.[principal_id] = m.[role_principal_id]
WHERE m.[member_principal_id] = @role_id
UNION ALL
SELECT 'membership', u.[name]
FROM {{database}}.sys.database_role_members AS m
INNER JOIN {{database}}.sys.database_principals AS r ON r.[principal_id] = m.[role_principal_id]
INNER JOIN {{database}}.sys.database_principals AS u ON u.[principal_id] = m.[member_principal_id]
WHERE r.[is_fixed_role] = 1 AND u.[principal_id] <> 1 AND r.[name] NOT IN (N'db_datareader', N'db_denydatareader', N'db_denydatawriter')
UNION ALL
SELECT 'schema_owner', m.[name] FROM @managed AS m WHERE m.[schema_id] IS NULL OR m.[principal_id] <> 1
UNION ALL
SELECT 'object_owner', o.[name]
FROM {{database}}.sys.objects AS o INNER JOIN @managed AS m ON m.[schema_id] = o.[schema_id]
WHERE o.[principal_id] IS NOT NULL
UNION ALL
SELECT 'unsupported_object', o.[name]
FROM {{database}}.sys.objects AS o INNER JOIN @managed AS m ON m.[schema_id] = o.[schema_id]
WHERE o.[type] NOT IN ('U', 'V', 'PK', 'UQ', 'D', 'F', 'C')
UNION ALL
SELECT 'database_trigger', t.[name] FROM {{database}}.sys.triggers AS t WHERE t.[parent_class] = 0
UNION ALL
SELECT 'assembly', a.[name] FROM {{database}}.sys.assemblies AS a WHERE a.[is_user_defined] = 1
UNION ALL
SELECT 'ambient_grant', p.[permission_name]
FROM {{database}}.sys.database_permissions AS p
LEFT JOIN {{database}}.sys.objects AS o ON p.[class] = 1 AND o.[object_id] = p.[major_id]
WHERE p.[grantee_principal_id] IN (0, 2) AND p.[state] IN ('G', 'W')
    AND ((p.[class] = 0 AND (p.[permission_name] NOT LIKE 'VIEW ANY COLUMN%' AND (p.[permission_name] <> 'CONNECT' OR p.[grantee_principal_id] = 2)))
        OR p.[class] = 3
        OR (p.[class] = 1 AND o.[is_ms_shipped] = 0))
UNION ALL
SELECT 'writer_scope', p.[permission_name]
FROM {{database}}.sys.database_permissions AS p
LEFT JOIN {{database}}.sys.objects AS o ON p.[class] = 1 AND o.[object_id] = p.[major_id]
LEFT JOIN {{database}}.sys.schemas AS s ON s.[schema_id] = o.[schema_id]
LEFT JOIN @managed AS m ON p.[class] = 3 AND m.[schema_id] = p.[major_id]
WHERE p.[grantee_principal_id] = @role_id
    AND (p.[state] NOT IN ('G', 'D')
        OR (p.[class] = 0 AND p.[permission_name] NOT IN ('CREATE TABLE', 'CREATE VIEW', 'CONNECT'))
        OR (p.[class] = 3 AND (m.[schema_id] IS NULL OR p.[permission_name] NOT IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE', 'ALTER', 'REFERENCES', 'VIEW DEFINITION')))
        OR (p.[class] = 1 AND (s.[name] <> N'dpone_fence' OR p.[permission_name] <> 'EXECUTE'))
        OR p.[class] NOT IN (0, 1, 3))
UNION ALL
SELECT 'other_writer', u.[name]
FROM {{database}}.sys.database_permissions AS p
INNER JOIN {{database}}.sys.database_principals AS u ON u.[principal_id] = p.[grantee_principal_id]
LEFT JOIN {{database}}.sys.objects AS o ON p.[class] = 1 AND o.[object_id] = p.[major_id]
LEFT JOIN {{database}}.sys.schemas AS s ON s.[schema_id] = o.[schema_id]
WHERE p.[state] IN ('G', 'W') AND p.[grantee_principal_id] NOT IN (0, 1, 2) AND p.[grantee_principal_id] <> COALESCE(@role_id, -1)
    AND u.[is_fixed_role] = 0
    AND p.[permission_name] NOT IN ('CONNECT', 'SELECT', 'VIEW DEFINITION', 'VIEW DATABASE STATE', 'REFERENCES')
    AND NOT (u.[sid] = SUSER_SID() AND p.[state] = 'G'
        AND ((p.[class] = 0 AND p.[permission_name] = 'ALTER ANY USER')
            OR (p.[class] = 4 AND p.[major_id] = @role_id AND p.[permission_name] = 'ALTER')
            OR (p.[class] = 1 AND s.[name] = N'dpone_fence' AND o.[name] = N'advance' AND p.[permission_name] = 'EXECUTE')))
UNION ALL
SELECT 'control_user', u.[name]
FROM {{control_database}}.sys.database_principals AS u
WHERE DATALENGTH(u.[sid]) = 16 AND SUBSTRING(u.[sid], 1, 6) = {{tag}}
UNION ALL
SELECT 'control_guest', p.[permission_name]
FROM {{control_database}}.sys.database_permissions AS p
WHERE p.[grantee_principal_id] = 2 AND p.[class] = 0 AND p.[permission_name] = 'CONNECT' AND p.[state] IN ('G', 'W');
SELECT v.[reason], v.[named] FROM @violations AS v;
IF EXISTS (SELECT 1 FROM @violations)
    RETURN;
