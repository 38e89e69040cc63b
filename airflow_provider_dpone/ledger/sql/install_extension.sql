-- The extension group, in its own schema and with its own version. Read by ledger/definition.py.

-- name: table_incarnation
-- Which database this ledger was installed in, to tell a copy from it, and its authority: production on SQL Server only.
CREATE TABLE {{extension}}.[incarnation] (
    [singleton] tinyint NOT NULL,
    [extension_version] int NOT NULL,
    [database_guid] varchar(36) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [recovery_fork_guid] varchar(36) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [create_token] varchar(33) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [checks_sha256] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [installed_on] nvarchar(400) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [authority_class] varchar(16) COLLATE Latin1_General_100_BIN2 NOT NULL,
    CONSTRAINT [pk_incarnation] PRIMARY KEY CLUSTERED ([singleton]),
    CONSTRAINT [ck_incarnation_singleton] CHECK ([singleton] = 1),
    CONSTRAINT [ck_incarnation_version] CHECK ([extension_version] = 2),
    CONSTRAINT [ck_incarnation_authority] CHECK (([authority_class] = 'production' AND DATALENGTH([authority_class]) = 10 AND LEFT([installed_on], 20) = N'Microsoft SQL Server') OR ([authority_class] = 'nonproduction' AND DATALENGTH([authority_class]) = 13))
);

-- name: table_evidence
-- Evidence documents by their content, in the order in which each operation recorded them.
CREATE TABLE {{extension}}.[evidence] (
    [operation_key] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [recorded_order] int NOT NULL,
    [evidence_kind] varchar(64) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [evidence_sha256] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [evidence_document] varbinary(max) NOT NULL,
    [recorded_at] datetime2(3) NOT NULL,
    CONSTRAINT [pk_evidence] PRIMARY KEY CLUSTERED ([operation_key], [recorded_order]),
    CONSTRAINT [uq_evidence_content] UNIQUE NONCLUSTERED ([operation_key], [evidence_kind], [evidence_sha256]),
    CONSTRAINT [fk_evidence_operation] FOREIGN KEY ([operation_key]) REFERENCES {{control}}.[composition_operations] ([operation_key]),
    CONSTRAINT [ck_evidence_key] CHECK (DATALENGTH([evidence_sha256]) = 71 AND DATALENGTH([evidence_kind]) > 0),
    CONSTRAINT [ck_evidence_document] CHECK (DATALENGTH([evidence_document]) > 0 AND DATALENGTH([evidence_document]) <= 8388608)
);

-- name: table_attempt_coordinates
-- The Airflow task try of each execution operation. instance_sha256 stands for (dag, run, task, map index).
CREATE TABLE {{extension}}.[attempt_coordinates] (
    [operation_key] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [instance_sha256] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [try_number] int NOT NULL,
    [map_index] int NOT NULL,
    [dag_id] nvarchar(1024) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [run_id] nvarchar(1024) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [task_id] nvarchar(1024) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [workload_id] nvarchar(1024) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [task_instance_id] varchar(36) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [mapped_input_sha256] varchar(71) COLLATE Latin1_General_100_BIN2 NULL,
    [admitted_at] datetime2(3) NOT NULL,
    CONSTRAINT [pk_attempt_coordinates] PRIMARY KEY CLUSTERED ([operation_key]),
    CONSTRAINT [uq_attempt_coordinates_try] UNIQUE NONCLUSTERED ([instance_sha256], [try_number]),
    CONSTRAINT [fk_attempt_coordinates_operation] FOREIGN KEY ([operation_key]) REFERENCES {{control}}.[composition_operations] ([operation_key]),
    CONSTRAINT [ck_attempt_coordinates_key] CHECK (DATALENGTH([instance_sha256]) = 71 AND DATALENGTH([task_instance_id]) = 36),
    CONSTRAINT [ck_attempt_coordinates_numbers] CHECK ([try_number] >= 1 AND [map_index] >= -1)
);

-- name: table_snapshot_records
-- Every revision of a ClickHouse snapshot record; the last one is the state.
CREATE TABLE {{extension}}.[snapshot_records] (
    [operation_key] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [revision] int NOT NULL,
    [state] varchar(16) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [record_sha256] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [record_document] varbinary(max) NOT NULL,
    CONSTRAINT [pk_snapshot_records] PRIMARY KEY CLUSTERED ([operation_key], [revision]),
    CONSTRAINT [fk_snapshot_records_operation] FOREIGN KEY ([operation_key]) REFERENCES {{control}}.[composition_operations] ([operation_key]),
    CONSTRAINT [ck_snapshot_records_revision] CHECK ([revision] >= 1),
    CONSTRAINT [ck_snapshot_records_state] CHECK (([state] = 'PREPARED' AND DATALENGTH([state]) = 8) OR ([state] = 'EXCHANGE_INTENT' AND DATALENGTH([state]) = 15) OR ([state] = 'PUBLISHED' AND DATALENGTH([state]) = 9) OR ([state] = 'NOT_PUBLISHED' AND DATALENGTH([state]) = 13) OR ([state] = 'COMMIT_UNKNOWN' AND DATALENGTH([state]) = 14)),
    CONSTRAINT [ck_snapshot_records_document] CHECK (DATALENGTH([record_document]) > 0 AND DATALENGTH([record_document]) <= 8388608)
);

-- name: table_source_charges
-- Bytes charged before they are read, cumulative for one workload of one activation.
CREATE TABLE {{extension}}.[source_charges] (
    [owner_key] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [workload_sha256] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [charge_number] int NOT NULL,
    [charge_id] varchar(36) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [operation_key] varchar(71) COLLATE Latin1_General_100_BIN2 NULL,
    [charged_bytes] bigint NOT NULL,
    [cumulative_bytes] bigint NOT NULL,
    [ceiling_bytes] bigint NOT NULL,
    CONSTRAINT [pk_source_charges] PRIMARY KEY CLUSTERED ([owner_key], [workload_sha256], [charge_number]),
    CONSTRAINT [uq_source_charges_id] UNIQUE NONCLUSTERED ([charge_id]),
    CONSTRAINT [fk_source_charges_owner] FOREIGN KEY ([owner_key]) REFERENCES {{control}}.[composition_owners] ([owner_key]),
    CONSTRAINT [fk_source_charges_operation] FOREIGN KEY ([operation_key]) REFERENCES {{control}}.[composition_operations] ([operation_key]),
    CONSTRAINT [ck_source_charges_bytes] CHECK ([charged_bytes] >= 1 AND [cumulative_bytes] >= [charged_bytes] AND [cumulative_bytes] <= [ceiling_bytes])
);

-- name: table_gate_receipts
-- Green runs of the gate profile: on which server version, with which version of this provider. An activation needs one.
CREATE TABLE {{extension}}.[gate_receipts] (
    [receipt_sha256] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [engine_name] nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [engine_product_version] nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [product_version] nvarchar(64) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [receipt_document] varbinary(max) NOT NULL,
    [recorded_at] datetime2(3) NOT NULL,
    CONSTRAINT [pk_gate_receipts] PRIMARY KEY CLUSTERED ([receipt_sha256]),
    CONSTRAINT [ck_gate_receipts_key] CHECK (DATALENGTH([receipt_sha256]) = 71 AND DATALENGTH([engine_name]) > 0 AND DATALENGTH([engine_product_version]) > 0 AND DATALENGTH([product_version]) > 0),
    CONSTRAINT [ck_gate_receipts_document] CHECK (DATALENGTH([receipt_document]) > 0 AND DATALENGTH([receipt_document]) <= 65536)
);

-- name: trigger_incarnation
-- The incarnation is written once, by the installer.
CREATE TRIGGER {{extension}}.[tr_incarnation] ON {{extension}}.[incarnation]
AFTER INSERT, UPDATE, DELETE
AS
BEGIN
    SET NOCOUNT ON;
    {{require_lock}}
    THROW 51000, 'DPONE_LEDGER: incarnation_immutable', 1;
END

-- name: trigger_evidence
-- Evidence is append-only, numbered without gaps, and its digest is that of its bytes.
CREATE TRIGGER {{extension}}.[tr_evidence] ON {{extension}}.[evidence]
AFTER INSERT, UPDATE, DELETE
AS
BEGIN
    SET NOCOUNT ON;
    {{require_lock}}
    IF EXISTS (SELECT 1 FROM deleted)
        THROW 51000, 'DPONE_LEDGER: evidence_immutable', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i
               WHERE i.[evidence_sha256] <> 'sha256:' + LOWER(CONVERT(varchar(64), HASHBYTES('SHA2_256', i.[evidence_document]), 2)))
        THROW 51000, 'DPONE_LEDGER: evidence_digest', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i
               WHERE i.[recorded_order] <> (SELECT COUNT(*) FROM {{extension}}.[evidence] AS e WHERE e.[operation_key] = i.[operation_key]))
        THROW 51000, 'DPONE_LEDGER: evidence_order', 1;
END

-- name: trigger_attempt_coordinates
-- Coordinates are written once, with their operation.
CREATE TRIGGER {{extension}}.[tr_attempt_coordinates] ON {{extension}}.[attempt_coordinates]
AFTER INSERT, UPDATE, DELETE
AS
BEGIN
    SET NOCOUNT ON;
    {{require_lock}}
    IF EXISTS (SELECT 1 FROM deleted)
        THROW 51000, 'DPONE_LEDGER: coordinates_immutable', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i
               INNER JOIN {{control}}.[composition_operations] AS o ON o.[operation_key] = i.[operation_key]
               WHERE o.[operation_family] <> 'execution' OR o.[state] <> 'RUNNING')
        THROW 51000, 'DPONE_LEDGER: coordinates_operation', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i
               INNER JOIN {{extension}}.[attempt_coordinates] AS c ON c.[instance_sha256] = i.[instance_sha256] AND c.[operation_key] <> i.[operation_key]
               WHERE c.[try_number] >= i.[try_number])
        THROW 51000, 'DPONE_LEDGER: coordinates_late_try', 1;
END

-- name: trigger_snapshot_records
-- Revisions are append-only, without gaps, and follow the snapshot's state machine; only COMMIT_UNKNOWN may be decided again.
CREATE TRIGGER {{extension}}.[tr_snapshot_records] ON {{extension}}.[snapshot_records]
AFTER INSERT, UPDATE, DELETE
AS
BEGIN
    SET NOCOUNT ON;
    {{require_lock}}
    IF EXISTS (SELECT 1 FROM deleted)
        THROW 51000, 'DPONE_LEDGER: snapshot_immutable', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i
               WHERE i.[record_sha256] <> 'sha256:' + LOWER(CONVERT(varchar(64), HASHBYTES('SHA2_256', i.[record_document]), 2)))
        THROW 51000, 'DPONE_LEDGER: snapshot_digest', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i
               LEFT JOIN {{extension}}.[snapshot_records] AS p ON p.[operation_key] = i.[operation_key] AND p.[revision] = i.[revision] - 1
               WHERE NOT ((i.[revision] = 1 AND i.[state] = 'PREPARED')
                          OR (i.[revision] > 1 AND p.[state] = 'PREPARED' AND i.[state] = 'EXCHANGE_INTENT')
                          OR (i.[revision] > 1 AND p.[state] IN ('EXCHANGE_INTENT', 'COMMIT_UNKNOWN') AND i.[state] IN ('PUBLISHED', 'NOT_PUBLISHED', 'COMMIT_UNKNOWN'))))
        THROW 51000, 'DPONE_LEDGER: snapshot_transition', 1;
END

-- name: trigger_source_charges
-- Charges are append-only and cumulative; the ceiling of a workload does not change.
CREATE TRIGGER {{extension}}.[tr_source_charges] ON {{extension}}.[source_charges]
AFTER INSERT, UPDATE, DELETE
AS
BEGIN
    SET NOCOUNT ON;
    {{require_lock}}
    IF EXISTS (SELECT 1 FROM deleted)
        THROW 51000, 'DPONE_LEDGER: charge_immutable', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i
               LEFT JOIN {{extension}}.[source_charges] AS p ON p.[owner_key] = i.[owner_key] AND p.[workload_sha256] = i.[workload_sha256] AND p.[charge_number] = i.[charge_number] - 1
               WHERE NOT ((i.[charge_number] = 1 AND i.[cumulative_bytes] = i.[charged_bytes])
                          OR (i.[charge_number] > 1 AND p.[charge_number] IS NOT NULL
                              AND i.[ceiling_bytes] = p.[ceiling_bytes]
                              AND CONVERT(decimal(20, 0), i.[cumulative_bytes]) = CONVERT(decimal(20, 0), p.[cumulative_bytes]) + i.[charged_bytes])))
        THROW 51000, 'DPONE_LEDGER: charge_sequence', 1;
END

-- name: trigger_gate_receipts
-- Receipts are append-only, and a digest is that of its bytes: none is changed into another.
CREATE TRIGGER {{extension}}.[tr_gate_receipts] ON {{extension}}.[gate_receipts]
AFTER INSERT, UPDATE, DELETE
AS
BEGIN
    SET NOCOUNT ON;
    {{require_lock}}
    IF EXISTS (SELECT 1 FROM deleted)
        THROW 51000, 'DPONE_LEDGER: receipt_immutable', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i
               WHERE i.[receipt_sha256] <> 'sha256:' + LOWER(CONVERT(varchar(64), HASHBYTES('SHA2_256', i.[receipt_document]), 2)))
        THROW 51000, 'DPONE_LEDGER: receipt_digest', 1;
END
