-- The eight tables that every ledger has. The format is read by ledger/definition.py: one column or constraint a line.

-- name: table_authority
-- The singleton that says which ledger this is and of which storage version.
CREATE TABLE {{control}}.[composition_authority] (
    [singleton] tinyint NOT NULL,
    [schema_version] int NOT NULL,
    [service_id] varchar(36) COLLATE Latin1_General_100_BIN2 NOT NULL,
    CONSTRAINT [pk_composition_authority] PRIMARY KEY CLUSTERED ([singleton]),
    CONSTRAINT [ck_composition_authority_singleton] CHECK ([singleton] = 1),
    CONSTRAINT [ck_composition_authority_version] CHECK ([schema_version] = 2),
    CONSTRAINT [ck_composition_authority_service] CHECK (DATALENGTH([service_id]) = 36)
);

-- name: table_owners
-- Activations and qualification runs, each with its immutable original request.
CREATE TABLE {{control}}.[composition_owners] (
    [owner_key] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [owner_kind] varchar(16) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [owner_id] varchar(36) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [subject_sha256] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [subject_document] varbinary(max) NOT NULL,
    [state] varchar(16) COLLATE Latin1_General_100_BIN2 NOT NULL,
    CONSTRAINT [pk_composition_owners] PRIMARY KEY CLUSTERED ([owner_key]),
    CONSTRAINT [uq_composition_owners_id] UNIQUE NONCLUSTERED ([owner_kind], [owner_id]),
    CONSTRAINT [uq_composition_owners_subject] UNIQUE NONCLUSTERED ([owner_kind], [subject_sha256]),
    CONSTRAINT [ck_composition_owners_key] CHECK (DATALENGTH([owner_key]) = 71 AND DATALENGTH([subject_sha256]) = 71 AND DATALENGTH([owner_id]) = 36),
    CONSTRAINT [ck_composition_owners_document] CHECK (DATALENGTH([subject_document]) > 0 AND DATALENGTH([subject_document]) <= 8388608),
    CONSTRAINT [ck_composition_owners_kind] CHECK (([owner_kind] = 'execution' AND DATALENGTH([owner_kind]) = 9) OR ([owner_kind] = 'qualification' AND DATALENGTH([owner_kind]) = 13)),
    CONSTRAINT [ck_composition_owners_state] CHECK (([state] = 'PREPARED' AND DATALENGTH([state]) = 8) OR ([state] = 'ACTIVE' AND DATALENGTH([state]) = 6) OR ([state] = 'RETIRED' AND DATALENGTH([state]) = 7) OR ([owner_kind] = 'execution' AND [state] = 'RETIRING' AND DATALENGTH([state]) = 8) OR ([owner_kind] = 'qualification' AND (([state] = 'SEALING' AND DATALENGTH([state]) = 7) OR ([state] = 'SEALED' AND DATALENGTH([state]) = 6) OR ([state] = 'TRANSFERRED' AND DATALENGTH([state]) = 11))))
);

-- name: table_domains
-- Physical identities, each with its fencing epoch and at most one owner.
CREATE TABLE {{control}}.[composition_domains] (
    [guard_id] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [connector] varchar(16) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [service_id] varchar(36) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [physical_subject_sha256] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [fencing_epoch] bigint NOT NULL,
    [owner_key] varchar(71) COLLATE Latin1_General_100_BIN2 NULL,
    CONSTRAINT [pk_composition_domains] PRIMARY KEY CLUSTERED ([guard_id]),
    CONSTRAINT [uq_composition_domains_identity] UNIQUE NONCLUSTERED ([connector], [service_id], [physical_subject_sha256]),
    CONSTRAINT [fk_composition_domains_owner] FOREIGN KEY ([owner_key]) REFERENCES {{control}}.[composition_owners] ([owner_key]),
    CONSTRAINT [ck_composition_domains_key] CHECK (DATALENGTH([guard_id]) = 71 AND DATALENGTH([physical_subject_sha256]) = 71 AND DATALENGTH([service_id]) = 36),
    CONSTRAINT [ck_composition_domains_connector] CHECK (([connector] = 'mssql' AND DATALENGTH([connector]) = 5) OR ([connector] = 'clickhouse' AND DATALENGTH([connector]) = 10) OR ([connector] = 'postgres' AND DATALENGTH([connector]) = 8)),
    CONSTRAINT [ck_composition_domains_epoch] CHECK ([fencing_epoch] >= 0)
);

-- name: table_owner_domains
-- The complete scope that an owner acquired, with the epoch of each domain. Every epoch of a domain has exactly one row.
CREATE TABLE {{control}}.[composition_owner_domains] (
    [owner_key] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [guard_id] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [claim_document] varbinary(max) NOT NULL,
    [fencing_epoch] bigint NOT NULL,
    CONSTRAINT [pk_composition_owner_domains] PRIMARY KEY CLUSTERED ([owner_key], [guard_id]),
    CONSTRAINT [uq_composition_owner_domains_epoch] UNIQUE NONCLUSTERED ([guard_id], [fencing_epoch]),
    CONSTRAINT [uq_composition_owner_domains_partition] UNIQUE NONCLUSTERED ([owner_key], [guard_id], [fencing_epoch]),
    CONSTRAINT [fk_composition_owner_domains_owner] FOREIGN KEY ([owner_key]) REFERENCES {{control}}.[composition_owners] ([owner_key]),
    CONSTRAINT [fk_composition_owner_domains_domain] FOREIGN KEY ([guard_id]) REFERENCES {{control}}.[composition_domains] ([guard_id]),
    CONSTRAINT [ck_composition_owner_domains_document] CHECK (DATALENGTH([claim_document]) > 0 AND DATALENGTH([claim_document]) <= 8388608),
    CONSTRAINT [ck_composition_owner_domains_epoch] CHECK ([fencing_epoch] >= 1)
);

-- name: table_operations
-- Every admitted operation of both families with its immutable original, its state and the proofs that ended it.
CREATE TABLE {{control}}.[composition_operations] (
    [operation_key] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [operation_family] varchar(16) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [owner_key] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [owner_subject_sha256] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [replay_key] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [operation_document] varbinary(max) NOT NULL,
    [state] varchar(16) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [closed_gates_proof_sha256] varchar(71) COLLATE Latin1_General_100_BIN2 NULL,
    [quiescence_proof_sha256] varchar(71) COLLATE Latin1_General_100_BIN2 NULL,
    [outcome_proof_sha256] varchar(71) COLLATE Latin1_General_100_BIN2 NULL,
    CONSTRAINT [pk_composition_operations] PRIMARY KEY CLUSTERED ([operation_key]),
    CONSTRAINT [uq_composition_operations_replay] UNIQUE NONCLUSTERED ([operation_family], [replay_key]),
    CONSTRAINT [uq_composition_operations_family] UNIQUE NONCLUSTERED ([operation_key], [operation_family]),
    CONSTRAINT [uq_composition_operations_owner] UNIQUE NONCLUSTERED ([owner_key], [operation_key]),
    CONSTRAINT [fk_composition_operations_owner] FOREIGN KEY ([owner_key]) REFERENCES {{control}}.[composition_owners] ([owner_key]),
    CONSTRAINT [ck_composition_operations_key] CHECK (DATALENGTH([operation_key]) = 71 AND DATALENGTH([replay_key]) = 71 AND DATALENGTH([owner_subject_sha256]) = 71),
    CONSTRAINT [ck_composition_operations_document] CHECK (DATALENGTH([operation_document]) > 0 AND DATALENGTH([operation_document]) <= 8388608),
    CONSTRAINT [ck_composition_operations_family] CHECK (([operation_family] = 'execution' AND DATALENGTH([operation_family]) = 9) OR ([operation_family] = 'qualification' AND DATALENGTH([operation_family]) = 13)),
    CONSTRAINT [ck_composition_operations_state] CHECK (([state] = 'RUNNING' AND DATALENGTH([state]) = 7) OR ([state] = 'SUCCEEDED' AND DATALENGTH([state]) = 9) OR ([state] = 'FAILED' AND DATALENGTH([state]) = 6) OR ([state] = 'COMMIT_UNKNOWN' AND DATALENGTH([state]) = 14)),
    CONSTRAINT [ck_composition_operations_proofs] CHECK (([state] = 'RUNNING' AND [closed_gates_proof_sha256] IS NULL AND [quiescence_proof_sha256] IS NULL AND [outcome_proof_sha256] IS NULL) OR ([state] <> 'RUNNING' AND [closed_gates_proof_sha256] IS NOT NULL AND [quiescence_proof_sha256] IS NOT NULL AND [outcome_proof_sha256] IS NOT NULL))
);

-- name: table_operation_domains
-- The complete scope of an operation: guards of its owner, at the epochs at which the owner holds them.
CREATE TABLE {{control}}.[composition_operation_domains] (
    [operation_key] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [guard_id] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [owner_key] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [fencing_epoch] bigint NOT NULL,
    CONSTRAINT [pk_composition_operation_domains] PRIMARY KEY CLUSTERED ([operation_key], [guard_id]),
    CONSTRAINT [uq_composition_operation_domains_guard] UNIQUE NONCLUSTERED ([guard_id], [operation_key]),
    CONSTRAINT [fk_composition_operation_domains_operation] FOREIGN KEY ([owner_key], [operation_key]) REFERENCES {{control}}.[composition_operations] ([owner_key], [operation_key]),
    CONSTRAINT [fk_composition_operation_domains_partition] FOREIGN KEY ([owner_key], [guard_id], [fencing_epoch]) REFERENCES {{control}}.[composition_owner_domains] ([owner_key], [guard_id], [fencing_epoch])
);

-- name: table_issued_authorities
-- Every principal that an operation may ever write with, journaled when it was admitted, before anything was created.
CREATE TABLE {{control}}.[composition_issued_authorities] (
    [operation_key] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [connector] varchar(16) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [service_id] varchar(36) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [principal_id] varchar(64) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [principal_name] nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [purpose] varchar(16) COLLATE Latin1_General_100_BIN2 NOT NULL,
    CONSTRAINT [pk_composition_issued_authorities] PRIMARY KEY CLUSTERED ([operation_key], [connector], [service_id], [principal_id]),
    CONSTRAINT [uq_composition_issued_authorities_principal] UNIQUE NONCLUSTERED ([connector], [service_id], [principal_id]),
    CONSTRAINT [uq_composition_issued_authorities_purpose] UNIQUE NONCLUSTERED ([operation_key], [purpose]),
    CONSTRAINT [fk_composition_issued_authorities_operation] FOREIGN KEY ([operation_key]) REFERENCES {{control}}.[composition_operations] ([operation_key]),
    CONSTRAINT [ck_composition_issued_authorities_connector] CHECK (([connector] = 'mssql' AND DATALENGTH([connector]) = 5) OR ([connector] = 'clickhouse' AND DATALENGTH([connector]) = 10) OR ([connector] = 'postgres' AND DATALENGTH([connector]) = 8)),
    CONSTRAINT [ck_composition_issued_authorities_service] CHECK (DATALENGTH([service_id]) = 36),
    CONSTRAINT [ck_composition_issued_authorities_purpose] CHECK (([purpose] = 'ingest' AND DATALENGTH([purpose]) = 6) OR ([purpose] = 'publish' AND DATALENGTH([purpose]) = 7) OR ([purpose] = 'build' AND DATALENGTH([purpose]) = 5) OR ([purpose] = 'extract' AND DATALENGTH([purpose]) = 7))
);

-- name: table_proofs
-- Closure, quiescence and outcome proofs. Only the execution family has proofs yet.
CREATE TABLE {{control}}.[composition_proofs] (
    [operation_key] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [proof_kind] varchar(16) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [proof_sha256] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [operation_family] varchar(16) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [proof_document] varbinary(max) NOT NULL,
    CONSTRAINT [pk_composition_proofs] PRIMARY KEY CLUSTERED ([operation_key], [proof_kind], [proof_sha256]),
    CONSTRAINT [fk_composition_proofs_operation] FOREIGN KEY ([operation_key], [operation_family]) REFERENCES {{control}}.[composition_operations] ([operation_key], [operation_family]),
    CONSTRAINT [ck_composition_proofs_key] CHECK (DATALENGTH([proof_sha256]) = 71),
    CONSTRAINT [ck_composition_proofs_kind] CHECK (([proof_kind] = 'CLOSED_GATES' AND DATALENGTH([proof_kind]) = 12) OR ([proof_kind] = 'QUIESCENCE' AND DATALENGTH([proof_kind]) = 10) OR ([proof_kind] = 'OUTCOME' AND DATALENGTH([proof_kind]) = 7)),
    CONSTRAINT [ck_composition_proofs_family] CHECK ([operation_family] = 'execution' AND DATALENGTH([operation_family]) = 9),
    CONSTRAINT [ck_composition_proofs_document] CHECK (DATALENGTH([proof_document]) > 0 AND DATALENGTH([proof_document]) <= 8388608)
);

-- name: trigger_authority
-- The authority row is written once, by the installer.
CREATE TRIGGER {{control}}.[tr_composition_authority] ON {{control}}.[composition_authority]
AFTER INSERT, UPDATE, DELETE
AS
BEGIN
    SET NOCOUNT ON;
    {{require_lock}}
    THROW 51000, 'DPONE_LEDGER: authority_immutable', 1;
END

-- name: trigger_owners
-- Originals are immutable; an owner starts PREPARED and its state moves forward only.
CREATE TRIGGER {{control}}.[tr_composition_owners] ON {{control}}.[composition_owners]
AFTER INSERT, UPDATE, DELETE
AS
BEGIN
    SET NOCOUNT ON;
    {{require_lock}}
    IF EXISTS (SELECT [owner_key], [owner_kind], [owner_id], [subject_sha256], [subject_document] FROM deleted
               EXCEPT
               SELECT [owner_key], [owner_kind], [owner_id], [subject_sha256], [subject_document] FROM inserted)
        THROW 51000, 'DPONE_LEDGER: owner_immutable', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i LEFT JOIN deleted AS d ON d.[owner_key] = i.[owner_key]
               WHERE d.[owner_key] IS NULL AND (i.[state] <> 'PREPARED' OR EXISTS (SELECT 1 FROM deleted)))
        THROW 51000, 'DPONE_LEDGER: owner_starts_prepared', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i INNER JOIN deleted AS d ON d.[owner_key] = i.[owner_key]
               WHERE NOT ((i.[owner_kind] = 'execution'
                           AND ((d.[state] = 'PREPARED' AND i.[state] = 'ACTIVE')
                                OR (d.[state] = 'ACTIVE' AND i.[state] = 'RETIRING')
                                OR (d.[state] = 'RETIRING' AND i.[state] = 'RETIRED')))
                          OR (i.[owner_kind] = 'qualification'
                              AND ((d.[state] = 'PREPARED' AND i.[state] IN ('ACTIVE', 'SEALING'))
                                   OR (d.[state] = 'ACTIVE' AND i.[state] = 'SEALING')
                                   OR (d.[state] = 'SEALING' AND i.[state] IN ('SEALED', 'RETIRED'))
                                   OR (d.[state] = 'SEALED' AND i.[state] IN ('TRANSFERRED', 'RETIRED'))))))
        THROW 51000, 'DPONE_LEDGER: owner_transition', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i
               INNER JOIN {{control}}.[composition_operations] AS o ON o.[owner_key] = i.[owner_key]
               WHERE i.[state] IN ('RETIRED', 'TRANSFERRED') AND o.[state] IN ('RUNNING', 'COMMIT_UNKNOWN'))
        THROW 51000, 'DPONE_LEDGER: owner_unresolved', 1;
END

-- name: trigger_domains
-- Identities are immutable; an acquisition advances the epoch by exactly one, a release keeps it.
CREATE TRIGGER {{control}}.[tr_composition_domains] ON {{control}}.[composition_domains]
AFTER INSERT, UPDATE, DELETE
AS
BEGIN
    SET NOCOUNT ON;
    {{require_lock}}
    IF EXISTS (SELECT [guard_id], [connector], [service_id], [physical_subject_sha256] FROM deleted
               EXCEPT
               SELECT [guard_id], [connector], [service_id], [physical_subject_sha256] FROM inserted)
        THROW 51000, 'DPONE_LEDGER: domain_immutable', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i LEFT JOIN deleted AS d ON d.[guard_id] = i.[guard_id]
               WHERE d.[guard_id] IS NULL AND (i.[fencing_epoch] <> 0 OR i.[owner_key] IS NOT NULL))
        THROW 51000, 'DPONE_LEDGER: domain_starts_unowned', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i INNER JOIN deleted AS d ON d.[guard_id] = i.[guard_id]
               WHERE NOT ((CONVERT(decimal(20, 0), i.[fencing_epoch]) = CONVERT(decimal(20, 0), d.[fencing_epoch]) + 1
                           AND i.[owner_key] IS NOT NULL AND (d.[owner_key] IS NULL OR d.[owner_key] <> i.[owner_key]))
                          OR (i.[fencing_epoch] = d.[fencing_epoch]
                              AND i.[owner_key] IS NULL AND d.[owner_key] IS NOT NULL)))
        THROW 51000, 'DPONE_LEDGER: domain_epoch', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i
               INNER JOIN {{control}}.[composition_owners] AS o ON o.[owner_key] = i.[owner_key]
               WHERE o.[state] <> 'PREPARED')
        THROW 51000, 'DPONE_LEDGER: domain_owner_state', 1;
    IF EXISTS (SELECT 1 FROM deleted AS d
               INNER JOIN {{control}}.[composition_owners] AS o ON o.[owner_key] = d.[owner_key]
               WHERE o.[state] NOT IN ('RETIRED', 'TRANSFERRED'))
        THROW 51000, 'DPONE_LEDGER: domain_still_owned', 1;
END

-- name: trigger_owner_domains
-- A partition is written once, at the epoch that its owner has just acquired.
CREATE TRIGGER {{control}}.[tr_composition_owner_domains] ON {{control}}.[composition_owner_domains]
AFTER INSERT, UPDATE, DELETE
AS
BEGIN
    SET NOCOUNT ON;
    {{require_lock}}
    IF EXISTS (SELECT 1 FROM deleted)
        THROW 51000, 'DPONE_LEDGER: owner_domain_immutable', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i
               INNER JOIN {{control}}.[composition_domains] AS d ON d.[guard_id] = i.[guard_id]
               WHERE d.[owner_key] IS NULL OR d.[owner_key] <> i.[owner_key] OR d.[fencing_epoch] <> i.[fencing_epoch])
        THROW 51000, 'DPONE_LEDGER: owner_domain_epoch', 1;
END

-- name: trigger_operations
-- Originals are immutable; an operation starts RUNNING under an ACTIVE owner and ends with three stored proofs.
CREATE TRIGGER {{control}}.[tr_composition_operations] ON {{control}}.[composition_operations]
AFTER INSERT, UPDATE, DELETE
AS
BEGIN
    SET NOCOUNT ON;
    {{require_lock}}
    IF EXISTS (SELECT [operation_key], [operation_family], [owner_key], [owner_subject_sha256], [replay_key], [operation_document] FROM deleted
               EXCEPT
               SELECT [operation_key], [operation_family], [owner_key], [owner_subject_sha256], [replay_key], [operation_document] FROM inserted)
        THROW 51000, 'DPONE_LEDGER: operation_immutable', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i LEFT JOIN deleted AS d ON d.[operation_key] = i.[operation_key]
               WHERE d.[operation_key] IS NULL AND i.[state] <> 'RUNNING')
        THROW 51000, 'DPONE_LEDGER: operation_starts_running', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i
               LEFT JOIN deleted AS d ON d.[operation_key] = i.[operation_key]
               INNER JOIN {{control}}.[composition_owners] AS o ON o.[owner_key] = i.[owner_key]
               WHERE d.[operation_key] IS NULL
                 AND (o.[owner_kind] <> i.[operation_family] OR o.[subject_sha256] <> i.[owner_subject_sha256]
                      OR (o.[owner_kind] = 'execution' AND o.[state] <> 'ACTIVE')
                      OR (o.[owner_kind] = 'qualification' AND o.[state] NOT IN ('ACTIVE', 'SEALING'))))
        THROW 51000, 'DPONE_LEDGER: operation_owner', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i
               LEFT JOIN deleted AS d ON d.[operation_key] = i.[operation_key]
               WHERE d.[operation_key] IS NULL AND i.[operation_family] = 'execution' AND i.[replay_key] <> i.[operation_key])
        THROW 51000, 'DPONE_LEDGER: operation_replay_key', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i INNER JOIN deleted AS d ON d.[operation_key] = i.[operation_key]
               WHERE NOT ((d.[state] = 'RUNNING' AND i.[state] IN ('SUCCEEDED', 'FAILED', 'COMMIT_UNKNOWN'))
                          OR (d.[state] = 'COMMIT_UNKNOWN' AND i.[state] IN ('SUCCEEDED', 'FAILED')
                              AND i.[closed_gates_proof_sha256] = d.[closed_gates_proof_sha256]
                              AND i.[quiescence_proof_sha256] = d.[quiescence_proof_sha256]
                              AND i.[outcome_proof_sha256] <> d.[outcome_proof_sha256])))
        THROW 51000, 'DPONE_LEDGER: operation_transition', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i
               WHERE i.[state] <> 'RUNNING'
                 AND (NOT EXISTS (SELECT 1 FROM {{control}}.[composition_proofs] AS p WHERE p.[operation_key] = i.[operation_key] AND p.[proof_kind] = 'CLOSED_GATES' AND p.[proof_sha256] = i.[closed_gates_proof_sha256])
                      OR NOT EXISTS (SELECT 1 FROM {{control}}.[composition_proofs] AS p WHERE p.[operation_key] = i.[operation_key] AND p.[proof_kind] = 'QUIESCENCE' AND p.[proof_sha256] = i.[quiescence_proof_sha256])
                      OR NOT EXISTS (SELECT 1 FROM {{control}}.[composition_proofs] AS p WHERE p.[operation_key] = i.[operation_key] AND p.[proof_kind] = 'OUTCOME' AND p.[proof_sha256] = i.[outcome_proof_sha256])))
        THROW 51000, 'DPONE_LEDGER: operation_proofs', 1;
END

-- name: trigger_operation_domains
-- A partition is written once, at the current epoch, and never beside another unresolved operation on the same guard.
CREATE TRIGGER {{control}}.[tr_composition_operation_domains] ON {{control}}.[composition_operation_domains]
AFTER INSERT, UPDATE, DELETE
AS
BEGIN
    SET NOCOUNT ON;
    {{require_lock}}
    IF EXISTS (SELECT 1 FROM deleted)
        THROW 51000, 'DPONE_LEDGER: operation_domain_immutable', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i
               INNER JOIN {{control}}.[composition_domains] AS d ON d.[guard_id] = i.[guard_id]
               WHERE d.[owner_key] IS NULL OR d.[owner_key] <> i.[owner_key] OR d.[fencing_epoch] <> i.[fencing_epoch])
        THROW 51000, 'DPONE_LEDGER: operation_domain_epoch', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i
               INNER JOIN {{control}}.[composition_operations] AS o ON o.[operation_key] = i.[operation_key]
               WHERE o.[state] <> 'RUNNING')
        THROW 51000, 'DPONE_LEDGER: operation_domain_state', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i
               INNER JOIN {{control}}.[composition_operation_domains] AS other ON other.[guard_id] = i.[guard_id] AND other.[operation_key] <> i.[operation_key]
               INNER JOIN {{control}}.[composition_operations] AS o ON o.[operation_key] = other.[operation_key]
               WHERE o.[state] IN ('RUNNING', 'COMMIT_UNKNOWN'))
        THROW 51000, 'DPONE_LEDGER: operation_overlap', 1;
END

-- name: trigger_issued_authorities
-- A principal is journaled once, while its operation is RUNNING.
CREATE TRIGGER {{control}}.[tr_composition_issued_authorities] ON {{control}}.[composition_issued_authorities]
AFTER INSERT, UPDATE, DELETE
AS
BEGIN
    SET NOCOUNT ON;
    {{require_lock}}
    IF EXISTS (SELECT 1 FROM deleted)
        THROW 51000, 'DPONE_LEDGER: authority_journal_immutable', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i
               INNER JOIN {{control}}.[composition_operations] AS o ON o.[operation_key] = i.[operation_key]
               WHERE o.[state] <> 'RUNNING')
        THROW 51000, 'DPONE_LEDGER: authority_journal_state', 1;
END

-- name: trigger_proofs
-- A proof is written once, its digest is that of its bytes, and a settled operation takes no more proofs.
CREATE TRIGGER {{control}}.[tr_composition_proofs] ON {{control}}.[composition_proofs]
AFTER INSERT, UPDATE, DELETE
AS
BEGIN
    SET NOCOUNT ON;
    {{require_lock}}
    IF EXISTS (SELECT 1 FROM deleted)
        THROW 51000, 'DPONE_LEDGER: proof_immutable', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i
               WHERE i.[proof_sha256] <> 'sha256:' + LOWER(CONVERT(varchar(64), HASHBYTES('SHA2_256', i.[proof_document]), 2)))
        THROW 51000, 'DPONE_LEDGER: proof_digest', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i
               INNER JOIN {{control}}.[composition_operations] AS o ON o.[operation_key] = i.[operation_key]
               WHERE NOT (o.[state] = 'RUNNING' OR (o.[state] = 'COMMIT_UNKNOWN' AND i.[proof_kind] = 'OUTCOME')))
        THROW 51000, 'DPONE_LEDGER: proof_state', 1;
END
