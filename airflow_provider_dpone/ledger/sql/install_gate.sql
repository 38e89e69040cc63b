-- The SQL Server gate group. Read by ledger/definition.py: one column or constraint a line.

-- name: table_login_gates
-- The one login of an operation on this instance, and how far its gate has moved.
CREATE TABLE {{control}}.[composition_login_gates] (
    [operation_key] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [login_sid] binary(16) NOT NULL,
    [login_name] nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [gate_state] varchar(16) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [disabled_evidence_sha256] varchar(71) COLLATE Latin1_General_100_BIN2 NULL,
    CONSTRAINT [pk_composition_login_gates] PRIMARY KEY CLUSTERED ([operation_key]),
    CONSTRAINT [uq_composition_login_gates_sid] UNIQUE NONCLUSTERED ([login_sid]),
    CONSTRAINT [uq_composition_login_gates_name] UNIQUE NONCLUSTERED ([login_name]),
    CONSTRAINT [fk_composition_login_gates_operation] FOREIGN KEY ([operation_key]) REFERENCES {{control}}.[composition_operations] ([operation_key]),
    CONSTRAINT [ck_composition_login_gates_state] CHECK (([gate_state] = 'JOURNALED' AND DATALENGTH([gate_state]) = 9) OR ([gate_state] = 'READY' AND DATALENGTH([gate_state]) = 5) OR ([gate_state] = 'CLOSING' AND DATALENGTH([gate_state]) = 7) OR ([gate_state] = 'CLOSED' AND DATALENGTH([gate_state]) = 6)),
    CONSTRAINT [ck_composition_login_gates_evidence] CHECK (([gate_state] = 'CLOSED' AND [disabled_evidence_sha256] IS NOT NULL) OR ([gate_state] <> 'CLOSED' AND [disabled_evidence_sha256] IS NULL))
);

-- name: table_mssql_gate_evidence
-- The original observations of the SQL Server gate: closure and quiescence of the journaled SID.
CREATE TABLE {{control}}.[composition_mssql_gate_evidence] (
    [operation_key] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [evidence_kind] varchar(16) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [evidence_sha256] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [evidence_document] varbinary(max) NOT NULL,
    CONSTRAINT [pk_composition_mssql_gate_evidence] PRIMARY KEY CLUSTERED ([operation_key], [evidence_kind]),
    CONSTRAINT [fk_composition_mssql_gate_evidence_gate] FOREIGN KEY ([operation_key]) REFERENCES {{control}}.[composition_login_gates] ([operation_key]),
    CONSTRAINT [ck_composition_mssql_gate_evidence_key] CHECK (DATALENGTH([evidence_sha256]) = 71),
    CONSTRAINT [ck_composition_mssql_gate_evidence_kind] CHECK (([evidence_kind] = 'CLOSED_GATES' AND DATALENGTH([evidence_kind]) = 12) OR ([evidence_kind] = 'QUIESCENCE' AND DATALENGTH([evidence_kind]) = 10)),
    CONSTRAINT [ck_composition_mssql_gate_evidence_document] CHECK (DATALENGTH([evidence_document]) > 0 AND DATALENGTH([evidence_document]) <= 8388608)
);

-- name: table_mssql_enrollments
-- Which database of this instance a SQL Server guard stands for, and the one role that writers get there.
CREATE TABLE {{control}}.[composition_mssql_enrollments] (
    [guard_id] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [database_name] nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [database_id] int NOT NULL,
    [database_guid] varchar(36) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [create_token] varchar(33) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [writer_role] nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
    CONSTRAINT [pk_composition_mssql_enrollments] PRIMARY KEY CLUSTERED ([guard_id]),
    CONSTRAINT [uq_composition_mssql_enrollments_name] UNIQUE NONCLUSTERED ([database_name]),
    CONSTRAINT [uq_composition_mssql_enrollments_id] UNIQUE NONCLUSTERED ([database_id]),
    CONSTRAINT [fk_composition_mssql_enrollments_domain] FOREIGN KEY ([guard_id]) REFERENCES {{control}}.[composition_domains] ([guard_id]),
    CONSTRAINT [ck_composition_mssql_enrollments_guid] CHECK (DATALENGTH([database_guid]) = 36)
);

-- name: table_mssql_managed_schemas
-- The schemas of an enrolled database in which attempts may write.
CREATE TABLE {{control}}.[composition_mssql_managed_schemas] (
    [guard_id] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [schema_name] nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
    CONSTRAINT [pk_composition_mssql_managed_schemas] PRIMARY KEY CLUSTERED ([guard_id], [schema_name]),
    CONSTRAINT [fk_composition_mssql_managed_schemas_enrollment] FOREIGN KEY ([guard_id]) REFERENCES {{control}}.[composition_mssql_enrollments] ([guard_id])
);

-- name: trigger_login_gates
-- A gate starts JOURNALED with the journaled SID, moves forward only, and is CLOSED with stored evidence.
CREATE TRIGGER {{control}}.[tr_composition_login_gates] ON {{control}}.[composition_login_gates]
AFTER INSERT, UPDATE, DELETE
AS
BEGIN
    SET NOCOUNT ON;
    {{require_lock}}
    IF EXISTS (SELECT [operation_key], [login_sid], [login_name] FROM deleted
               EXCEPT
               SELECT [operation_key], [login_sid], [login_name] FROM inserted)
        THROW 51000, 'DPONE_LEDGER: gate_immutable', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i LEFT JOIN deleted AS d ON d.[operation_key] = i.[operation_key]
               WHERE d.[operation_key] IS NULL
                 AND (i.[gate_state] <> 'JOURNALED'
                      OR NOT EXISTS (SELECT 1 FROM {{control}}.[composition_issued_authorities] AS a
                                     WHERE a.[operation_key] = i.[operation_key] AND a.[connector] = 'mssql'
                                       AND a.[principal_id] = 'mssql-sid:' + LOWER(CONVERT(varchar(32), i.[login_sid], 2))
                                       AND a.[principal_name] = i.[login_name])))
        THROW 51000, 'DPONE_LEDGER: gate_starts_journaled', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i INNER JOIN deleted AS d ON d.[operation_key] = i.[operation_key]
               WHERE NOT ((d.[gate_state] = 'JOURNALED' AND i.[gate_state] IN ('READY', 'CLOSING'))
                          OR (d.[gate_state] = 'READY' AND i.[gate_state] = 'CLOSING')
                          OR (d.[gate_state] = 'CLOSING' AND i.[gate_state] = 'CLOSED')))
        THROW 51000, 'DPONE_LEDGER: gate_transition', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i
               WHERE i.[gate_state] = 'CLOSED'
                 AND NOT EXISTS (SELECT 1 FROM {{control}}.[composition_mssql_gate_evidence] AS e
                                 WHERE e.[operation_key] = i.[operation_key] AND e.[evidence_kind] = 'CLOSED_GATES'
                                   AND e.[evidence_sha256] = i.[disabled_evidence_sha256]))
        THROW 51000, 'DPONE_LEDGER: gate_evidence', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i
               INNER JOIN {{control}}.[composition_operations] AS o ON o.[operation_key] = i.[operation_key]
               WHERE i.[gate_state] = 'READY' AND o.[state] <> 'RUNNING')
        THROW 51000, 'DPONE_LEDGER: gate_operation_state', 1;
END

-- name: trigger_mssql_gate_evidence
-- Gate evidence is written once, at the time its kind is observed, and its digest is that of its bytes.
CREATE TRIGGER {{control}}.[tr_composition_mssql_gate_evidence] ON {{control}}.[composition_mssql_gate_evidence]
AFTER INSERT, UPDATE, DELETE
AS
BEGIN
    SET NOCOUNT ON;
    {{require_lock}}
    IF EXISTS (SELECT 1 FROM deleted)
        THROW 51000, 'DPONE_LEDGER: gate_evidence_immutable', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i
               WHERE i.[evidence_sha256] <> 'sha256:' + LOWER(CONVERT(varchar(64), HASHBYTES('SHA2_256', i.[evidence_document]), 2)))
        THROW 51000, 'DPONE_LEDGER: gate_evidence_digest', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i
               INNER JOIN {{control}}.[composition_login_gates] AS g ON g.[operation_key] = i.[operation_key]
               WHERE NOT ((i.[evidence_kind] = 'CLOSED_GATES' AND g.[gate_state] = 'CLOSING')
                          OR (i.[evidence_kind] = 'QUIESCENCE' AND g.[gate_state] = 'CLOSED')))
        THROW 51000, 'DPONE_LEDGER: gate_evidence_state', 1;
END

-- name: trigger_mssql_enrollments
-- An enrollment is written once, for a SQL Server domain.
CREATE TRIGGER {{control}}.[tr_composition_mssql_enrollments] ON {{control}}.[composition_mssql_enrollments]
AFTER INSERT, UPDATE, DELETE
AS
BEGIN
    SET NOCOUNT ON;
    {{require_lock}}
    IF EXISTS (SELECT 1 FROM deleted)
        THROW 51000, 'DPONE_LEDGER: enrollment_immutable', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i
               INNER JOIN {{control}}.[composition_domains] AS d ON d.[guard_id] = i.[guard_id]
               WHERE d.[connector] <> 'mssql')
        THROW 51000, 'DPONE_LEDGER: enrollment_connector', 1;
END

-- name: trigger_mssql_managed_schemas
-- A managed schema is written once, before its domain is first owned.
CREATE TRIGGER {{control}}.[tr_composition_mssql_managed_schemas] ON {{control}}.[composition_mssql_managed_schemas]
AFTER INSERT, UPDATE, DELETE
AS
BEGIN
    SET NOCOUNT ON;
    {{require_lock}}
    IF EXISTS (SELECT 1 FROM deleted)
        THROW 51000, 'DPONE_LEDGER: managed_schema_immutable', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i
               INNER JOIN {{control}}.[composition_domains] AS d ON d.[guard_id] = i.[guard_id]
               WHERE d.[fencing_epoch] <> 0)
        THROW 51000, 'DPONE_LEDGER: managed_schema_late', 1;
END
