-- The registration group, in its own schema and with its own version. It needs the trust group.
-- Read by ledger/definition.py.

-- name: table_registration_version
-- The singleton that says of which version the group is, of which ledger, and the digest of its CHECK texts.
CREATE TABLE {{registration}}.[registration_version] (
    [singleton] tinyint NOT NULL,
    [group_version] int NOT NULL,
    [service_id] varchar(36) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [checks_sha256] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    CONSTRAINT [pk_registration_version] PRIMARY KEY CLUSTERED ([singleton]),
    CONSTRAINT [ck_registration_version_singleton] CHECK ([singleton] = 1),
    CONSTRAINT [ck_registration_version_version] CHECK ([group_version] = 1),
    CONSTRAINT [ck_registration_version_service] CHECK (DATALENGTH([service_id]) = 36)
);

-- name: table_grants
-- Every registered grant, which is thereby consumed, with its originals and the trust revision it was registered under.
CREATE TABLE {{registration}}.[grants] (
    [consumption_subject_sha256] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [registration_id] varchar(36) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [environment_id] varchar(36) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [campaign_id] varchar(36) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [registration_order] int NOT NULL,
    [phase] varchar(16) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [grant_id] varchar(36) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [subject_id] varchar(36) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [exclusive_id] varchar(36) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [workload_count] int NOT NULL,
    [trust_revision] int NOT NULL,
    [policy_sha256] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [grant_sha256] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [grant_document] varbinary(max) NOT NULL,
    [bundle_sha256] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [signature_bundle] varbinary(max) NOT NULL,
    [signature_subject_sha256] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [signature_subject_document] varbinary(max) NOT NULL,
    [request_sha256] varchar(71) COLLATE Latin1_General_100_BIN2 NULL,
    [request_document] varbinary(max) NULL,
    [registered_at] datetime2(3) NOT NULL,
    CONSTRAINT [pk_grants] PRIMARY KEY CLUSTERED ([consumption_subject_sha256]),
    CONSTRAINT [uq_grants_registration] UNIQUE NONCLUSTERED ([registration_id]),
    CONSTRAINT [uq_grants_order] UNIQUE NONCLUSTERED ([environment_id], [campaign_id], [registration_order]),
    CONSTRAINT [uq_grants_exclusive] UNIQUE NONCLUSTERED ([phase], [exclusive_id]),
    CONSTRAINT [uq_grants_campaign] UNIQUE NONCLUSTERED ([consumption_subject_sha256], [environment_id], [campaign_id]),
    CONSTRAINT [fk_grants_revision] FOREIGN KEY ([environment_id], [trust_revision], [policy_sha256]) REFERENCES {{trust}}.[policy_revisions] ([environment_id], [revision], [policy_sha256]),
    CONSTRAINT [ck_grants_key] CHECK (DATALENGTH([consumption_subject_sha256]) = 71 AND DATALENGTH([registration_id]) = 36 AND DATALENGTH([environment_id]) = 36 AND DATALENGTH([campaign_id]) = 36 AND DATALENGTH([grant_id]) = 36 AND DATALENGTH([subject_id]) = 36 AND DATALENGTH([exclusive_id]) = 36),
    CONSTRAINT [ck_grants_digests] CHECK (DATALENGTH([grant_sha256]) = 71 AND DATALENGTH([bundle_sha256]) = 71 AND DATALENGTH([signature_subject_sha256]) = 71),
    CONSTRAINT [ck_grants_phase] CHECK (([phase] = 'qualification' AND DATALENGTH([phase]) = 13 AND [exclusive_id] = [subject_id] AND [workload_count] = 0 AND [request_sha256] IS NULL AND [request_document] IS NULL) OR ([phase] = 'execution' AND DATALENGTH([phase]) = 9 AND [exclusive_id] = [grant_id] AND [workload_count] >= 1 AND [workload_count] <= 64 AND [request_sha256] IS NOT NULL AND [request_document] IS NOT NULL)),
    CONSTRAINT [ck_grants_grant] CHECK (DATALENGTH([grant_document]) > 0 AND DATALENGTH([grant_document]) <= 1048576),
    CONSTRAINT [ck_grants_bundle] CHECK (DATALENGTH([signature_bundle]) > 0 AND DATALENGTH([signature_bundle]) <= 8388608),
    CONSTRAINT [ck_grants_subject] CHECK (DATALENGTH([signature_subject_document]) > 0 AND DATALENGTH([signature_subject_document]) <= 1048576),
    CONSTRAINT [ck_grants_request] CHECK ([request_document] IS NULL OR (DATALENGTH([request_sha256]) = 71 AND DATALENGTH([request_document]) > 0 AND DATALENGTH([request_document]) <= 8388608))
);

-- name: table_ceilings
-- The bounds in force when a grant was registered: ordinal 0 is the grant as a whole, then each of its workloads.
CREATE TABLE {{registration}}.[ceilings] (
    [consumption_subject_sha256] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [ordinal] int NOT NULL,
    [workload_sha256] varchar(71) COLLATE Latin1_General_100_BIN2 NULL,
    [max_validity_seconds] bigint NOT NULL,
    [max_workloads] bigint NOT NULL,
    [max_attempts] bigint NOT NULL,
    [max_source_rows] bigint NOT NULL,
    [max_source_bytes] bigint NOT NULL,
    [max_attempt_seconds] bigint NOT NULL,
    CONSTRAINT [pk_ceilings] PRIMARY KEY CLUSTERED ([consumption_subject_sha256], [ordinal]),
    CONSTRAINT [fk_ceilings_grant] FOREIGN KEY ([consumption_subject_sha256]) REFERENCES {{registration}}.[grants] ([consumption_subject_sha256]),
    CONSTRAINT [ck_ceilings_workload] CHECK (([ordinal] = 0 AND [workload_sha256] IS NULL) OR ([ordinal] >= 1 AND [workload_sha256] IS NOT NULL AND DATALENGTH([workload_sha256]) = 71)),
    CONSTRAINT [ck_ceilings_work] CHECK ([max_validity_seconds] >= 1 AND [max_validity_seconds] <= 86400 AND [max_workloads] >= 1 AND [max_workloads] <= 64 AND [max_attempts] >= 1 AND [max_attempts] <= 128 AND [max_attempt_seconds] >= 1 AND [max_attempt_seconds] <= 3600),
    CONSTRAINT [ck_ceilings_source] CHECK ([max_source_rows] >= 1 AND [max_source_rows] <= 100000 AND [max_source_bytes] >= 1 AND [max_source_bytes] <= 1073741824)
);

-- name: table_memberships
-- The complete set of workloads of a campaign, each with the grant that brought it in.
CREATE TABLE {{registration}}.[memberships] (
    [environment_id] varchar(36) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [campaign_id] varchar(36) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [workload_sha256] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [workload_document] varbinary(max) NOT NULL,
    [first_consumption_subject_sha256] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    CONSTRAINT [pk_memberships] PRIMARY KEY CLUSTERED ([environment_id], [campaign_id], [workload_sha256]),
    CONSTRAINT [fk_memberships_grant] FOREIGN KEY ([first_consumption_subject_sha256], [environment_id], [campaign_id]) REFERENCES {{registration}}.[grants] ([consumption_subject_sha256], [environment_id], [campaign_id]),
    CONSTRAINT [ck_memberships_key] CHECK (DATALENGTH([workload_sha256]) = 71),
    CONSTRAINT [ck_memberships_document] CHECK (DATALENGTH([workload_document]) > 0 AND DATALENGTH([workload_document]) <= 8192)
);

-- name: trigger_registration_version
-- The version row is written once, by the installer.
CREATE TRIGGER {{registration}}.[tr_registration_version] ON {{registration}}.[registration_version]
AFTER INSERT, UPDATE, DELETE
AS
BEGIN
    SET NOCOUNT ON;
    {{require_lock}}
    THROW 51000, 'DPONE_LEDGER: registration_version_immutable', 1;
END

-- name: trigger_grants
-- Grants are append-only, in order within their campaign, under the trust revision in force, with the digests of their bytes.
CREATE TRIGGER {{registration}}.[tr_grants] ON {{registration}}.[grants]
AFTER INSERT, UPDATE, DELETE
AS
BEGIN
    SET NOCOUNT ON;
    {{require_lock}}
    {{require_session}}
    IF EXISTS (SELECT 1 FROM deleted)
        THROW 51000, 'DPONE_LEDGER: grant_immutable', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i
               WHERE i.[grant_sha256] <> 'sha256:' + LOWER(CONVERT(varchar(64), HASHBYTES('SHA2_256', i.[grant_document]), 2))
                  OR i.[bundle_sha256] <> 'sha256:' + LOWER(CONVERT(varchar(64), HASHBYTES('SHA2_256', i.[signature_bundle]), 2))
                  OR i.[signature_subject_sha256] <> 'sha256:' + LOWER(CONVERT(varchar(64), HASHBYTES('SHA2_256', i.[signature_subject_document]), 2))
                  OR (i.[request_document] IS NOT NULL AND i.[request_sha256] <> 'sha256:' + LOWER(CONVERT(varchar(64), HASHBYTES('SHA2_256', i.[request_document]), 2))))
        THROW 51000, 'DPONE_LEDGER: grant_digest', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i
               WHERE i.[registration_order] <> (SELECT COUNT(*) FROM {{registration}}.[grants] AS g WHERE g.[environment_id] = i.[environment_id] AND g.[campaign_id] = i.[campaign_id]))
        THROW 51000, 'DPONE_LEDGER: grant_order', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i
               INNER JOIN {{trust}}.[policy_revisions] AS r ON r.[environment_id] = i.[environment_id] AND r.[revision] > i.[trust_revision])
        THROW 51000, 'DPONE_LEDGER: grant_trust_revision', 1;
END

-- name: trigger_ceilings
-- Ceilings are append-only, one for the grant and one for each of its workloads, in order, and no more than those.
CREATE TRIGGER {{registration}}.[tr_ceilings] ON {{registration}}.[ceilings]
AFTER INSERT, UPDATE, DELETE
AS
BEGIN
    SET NOCOUNT ON;
    {{require_lock}}
    {{require_session}}
    IF EXISTS (SELECT 1 FROM deleted)
        THROW 51000, 'DPONE_LEDGER: ceiling_immutable', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i
               INNER JOIN {{registration}}.[grants] AS g ON g.[consumption_subject_sha256] = i.[consumption_subject_sha256]
               WHERE i.[ordinal] > g.[workload_count]
                  OR i.[ordinal] + 1 <> (SELECT COUNT(*) FROM {{registration}}.[ceilings] AS c WHERE c.[consumption_subject_sha256] = i.[consumption_subject_sha256]))
        THROW 51000, 'DPONE_LEDGER: ceiling_order', 1;
END

-- name: trigger_memberships
-- Members are append-only; each is a workload of the execution grant that it names.
CREATE TRIGGER {{registration}}.[tr_memberships] ON {{registration}}.[memberships]
AFTER INSERT, UPDATE, DELETE
AS
BEGIN
    SET NOCOUNT ON;
    {{require_lock}}
    {{require_session}}
    IF EXISTS (SELECT 1 FROM deleted)
        THROW 51000, 'DPONE_LEDGER: membership_immutable', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i
               WHERE i.[workload_sha256] <> 'sha256:' + LOWER(CONVERT(varchar(64), HASHBYTES('SHA2_256', i.[workload_document]), 2)))
        THROW 51000, 'DPONE_LEDGER: membership_digest', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i
               LEFT JOIN {{registration}}.[ceilings] AS c ON c.[consumption_subject_sha256] = i.[first_consumption_subject_sha256] AND c.[workload_sha256] = i.[workload_sha256]
               WHERE c.[ordinal] IS NULL)
        THROW 51000, 'DPONE_LEDGER: membership_grant', 1;
END
