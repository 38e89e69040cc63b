-- What the installer does besides creating tables and triggers, and what enrollment reads and writes.

-- name: allow_snapshot
-- Lets read-only transactions see one consistent state without waiting for writers. Stands outside of any transaction.
ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON;

-- name: present
-- What already occupies the place of a new ledger: objects of both schemas, and ledger tables of an older layout anywhere.
SELECT s.[name], o.[name], RTRIM(o.[type])
FROM sys.objects AS o INNER JOIN sys.schemas AS s ON s.[schema_id] = o.[schema_id]
WHERE s.[name] IN ({{control_text}}, {{extension_text}}) OR (o.[type] = 'U' AND o.[name] LIKE N'composition[_]%')
ORDER BY s.[name], o.[name];

-- name: database
-- Where an installation would go: name, collation, containment, chaining, durability, and the server: major version (15 is 2019), @@VERSION, version.
SELECT d.[name], d.[collation_name], CONVERT(int, d.[containment]), CONVERT(int, d.[is_trustworthy_on]), CONVERT(int, d.[is_db_chaining_on]), CONVERT(int, d.[delayed_durability]), CONVERT(int, SERVERPROPERTY('ProductMajorVersion')),
    CONVERT(nvarchar(400), @@VERSION), CONVERT(nvarchar(128), SERVERPROPERTY('ProductVersion'))
FROM sys.databases AS d WHERE d.[database_id] = DB_ID();

-- name: create_control_schema
-- The schema of the twelve tables.
CREATE SCHEMA {{control}} AUTHORIZATION [dbo];

-- name: create_extension_schema
-- The schema of the extension group.
CREATE SCHEMA {{extension}} AUTHORIZATION [dbo];

-- name: seed_authority
-- The authority row. It is written before the triggers exist, which refuse every later write of it.
INSERT INTO {{control}}.[composition_authority] ([singleton], [schema_version], [service_id]) VALUES (1, 2, {{service_text}});

-- name: seed_incarnation
-- The incarnation row: the identity of this database, the digest of the CHECK texts as this server stored them, and the class.
INSERT INTO {{extension}}.[incarnation] ([singleton], [extension_version], [database_guid], [recovery_fork_guid], [create_token], [checks_sha256], [installed_on], [authority_class])
SELECT 1, 2, LOWER(CONVERT(char(36), r.[database_guid])), LOWER(CONVERT(char(36), r.[recovery_fork_guid])), CONVERT(varchar(33), d.[create_date], 126),
    (SELECT 'sha256:' + LOWER(CONVERT(varchar(64), HASHBYTES('SHA2_256', STRING_AGG(CONVERT(nvarchar(max), k.[line]), NCHAR(10)) WITHIN GROUP (ORDER BY k.[line])), 2))
     FROM ({{checks}}) AS k),
    CONVERT(nvarchar(400), @@VERSION), {{authority_class}}
FROM sys.databases AS d INNER JOIN sys.database_recovery_status AS r ON r.[database_id] = d.[database_id]
WHERE d.[database_id] = DB_ID();

-- name: observe_mssql
-- The identity of one database of this instance.
DECLARE @database_name nvarchar(128) = ?;
SELECT d.[name], d.[database_id], LOWER(CONVERT(char(36), r.[database_guid])), CONVERT(varchar(33), d.[create_date], 126),
    CONVERT(int, d.[is_trustworthy_on]), CONVERT(int, d.[is_db_chaining_on]), CONVERT(int, d.[containment]), CONVERT(int, d.[delayed_durability])
FROM sys.databases AS d INNER JOIN sys.database_recovery_status AS r ON r.[database_id] = d.[database_id]
WHERE d.[name] = @database_name;

-- name: enrolled
-- Every enrolled domain with its SQL Server enrollment and its managed schemas.
SELECT d.[guard_id], d.[connector], d.[service_id], d.[physical_subject_sha256], d.[fencing_epoch], d.[owner_key] FROM {{control}}.[composition_domains] AS d ORDER BY d.[guard_id];
SELECT e.[guard_id], e.[database_name], e.[database_id], e.[database_guid], e.[create_token], e.[writer_role] FROM {{control}}.[composition_mssql_enrollments] AS e ORDER BY e.[guard_id];
SELECT m.[guard_id], m.[schema_name] FROM {{control}}.[composition_mssql_managed_schemas] AS m ORDER BY m.[guard_id], m.[schema_name];

-- name: enroll_domain
-- One physical domain, unowned, at epoch 0.
INSERT INTO {{control}}.[composition_domains] ([guard_id], [connector], [service_id], [physical_subject_sha256], [fencing_epoch], [owner_key]) VALUES (?, ?, ?, ?, 0, NULL);

-- name: enroll_mssql
-- The database of this instance that a SQL Server domain stands for.
INSERT INTO {{control}}.[composition_mssql_enrollments] ([guard_id], [database_name], [database_id], [database_guid], [create_token], [writer_role]) VALUES (?, ?, ?, ?, ?, ?);

-- name: enroll_schema
-- One schema in which attempts may write.
INSERT INTO {{control}}.[composition_mssql_managed_schemas] ([guard_id], [schema_name]) VALUES (?, ?);

-- name: all_keys
-- The execution operations that a complete audit reads one by one.
SELECT p.[operation_key] FROM {{control}}.[composition_operations] AS p WHERE p.[operation_family] = 'execution' ORDER BY p.[operation_key];

-- name: inventory
-- What a complete audit looks at besides: domains, enrollments, claims, charges, gate evidence, and all of qualification.
SELECT d.[guard_id], d.[connector], d.[service_id], d.[physical_subject_sha256] FROM {{control}}.[composition_domains] AS d ORDER BY d.[guard_id];
SELECT e.[guard_id], e.[database_guid], e.[create_token] FROM {{control}}.[composition_mssql_enrollments] AS e ORDER BY e.[guard_id];
SELECT od.[owner_key], od.[guard_id], od.[claim_document] FROM {{control}}.[composition_owner_domains] AS od ORDER BY od.[owner_key], od.[guard_id];
SELECT c.[owner_key], c.[workload_sha256], c.[charge_number], c.[charge_id], c.[charged_bytes], c.[cumulative_bytes], c.[ceiling_bytes]
FROM {{extension}}.[source_charges] AS c ORDER BY c.[owner_key], c.[workload_sha256], c.[charge_number];
SELECT m.[operation_key], m.[evidence_kind] FROM {{control}}.[composition_mssql_gate_evidence] AS m
WHERE m.[evidence_sha256] <> 'sha256:' + LOWER(CONVERT(varchar(64), HASHBYTES('SHA2_256', m.[evidence_document]), 2));
SELECT o.[owner_key], o.[owner_id], o.[subject_sha256], o.[subject_document] FROM {{control}}.[composition_owners] AS o WHERE o.[owner_kind] = 'qualification' ORDER BY o.[owner_key];
SELECT p.[operation_key], p.[owner_key], p.[owner_subject_sha256], p.[replay_key], p.[operation_document]
FROM {{control}}.[composition_operations] AS p WHERE p.[operation_family] = 'qualification' ORDER BY p.[operation_key];
SELECT s.[operation_key], s.[guard_id], s.[fencing_epoch]
FROM {{control}}.[composition_operation_domains] AS s
INNER JOIN {{control}}.[composition_operations] AS p ON p.[operation_key] = s.[operation_key] AND p.[operation_family] = 'qualification'
ORDER BY s.[operation_key], s.[guard_id];

-- name: foreign_rights
-- Rights that no role of docs/roles.md has: to delete, define or own, everybody's, and to insert receipts. Who, what, on what.
SELECT u.[name], p.[permission_name], COALESCE(s.[name] + N'.' + o.[name], s.[name], DB_NAME())
FROM sys.database_permissions AS p
INNER JOIN sys.database_principals AS u ON u.[principal_id] = p.[grantee_principal_id]
LEFT JOIN sys.objects AS o ON p.[class] = 1 AND o.[object_id] = p.[major_id]
LEFT JOIN sys.schemas AS s ON s.[schema_id] = CASE WHEN p.[class] = 3 THEN p.[major_id] ELSE o.[schema_id] END
WHERE p.[state] IN ('G', 'W')
  AND ((p.[class] = 0 AND (u.[principal_id] = 2 OR (p.[permission_name] NOT IN (N'CONNECT', N'VIEW DEFINITION') AND p.[permission_name] NOT LIKE N'VIEW ANY COLUMN%')))
       OR (p.[class] IN (1, 3) AND s.[name] IN ({{control_text}}, {{extension_text}})
           AND (u.[principal_id] IN (0, 2) OR p.[state] = 'W' OR p.[permission_name] NOT IN (N'SELECT', N'INSERT', N'UPDATE', N'VIEW DEFINITION'))))
UNION ALL
SELECT u.[name], N'MEMBER', r.[name]
FROM sys.database_role_members AS m
INNER JOIN sys.database_principals AS r ON r.[principal_id] = m.[role_principal_id]
INNER JOIN sys.database_principals AS u ON u.[principal_id] = m.[member_principal_id]
WHERE r.[is_fixed_role] = 1 AND r.[name] NOT IN (N'db_datareader', N'db_denydatareader', N'db_denydatawriter') AND u.[principal_id] <> 1
UNION ALL
SELECT u.[name], N'INSERT', N'gate_receipts'
FROM sys.database_permissions AS p
INNER JOIN sys.database_principals AS u ON u.[principal_id] = p.[grantee_principal_id]
LEFT JOIN sys.database_permissions AS d ON d.[grantee_principal_id] = p.[grantee_principal_id] AND d.[class] = 1 AND d.[state] = 'D'
    AND d.[permission_name] = N'INSERT' AND d.[major_id] = OBJECT_ID({{receipts_text}}, N'U')
WHERE p.[class] = 3 AND p.[major_id] = SCHEMA_ID({{extension_text}}) AND p.[permission_name] = N'INSERT' AND p.[state] IN ('G', 'W') AND d.[major_id] IS NULL;
