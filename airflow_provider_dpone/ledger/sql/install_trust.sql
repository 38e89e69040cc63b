-- The trust group, in its own schema and with its own version. Read by ledger/definition.py.

-- name: table_trust_version
-- The singleton that says of which version the group is, of which ledger, and the digest of its CHECK texts.
CREATE TABLE {{trust}}.[trust_version] (
    [singleton] tinyint NOT NULL,
    [group_version] int NOT NULL,
    [service_id] varchar(36) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [checks_sha256] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    CONSTRAINT [pk_trust_version] PRIMARY KEY CLUSTERED ([singleton]),
    CONSTRAINT [ck_trust_version_singleton] CHECK ([singleton] = 1),
    CONSTRAINT [ck_trust_version_version] CHECK ([group_version] = 1),
    CONSTRAINT [ck_trust_version_service] CHECK (DATALENGTH([service_id]) = 36)
);

-- name: table_policy_revisions
-- Every nonproduction policy of an environment with the trust root that it pins; the last revision is in force.
CREATE TABLE {{trust}}.[policy_revisions] (
    [environment_id] varchar(36) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [revision] int NOT NULL,
    [policy_sha256] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [policy_document] varbinary(max) NOT NULL,
    [trust_root_sha256] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [trust_root_document] varbinary(max) NOT NULL,
    [revocation_epoch] bigint NOT NULL,
    [recorded_at] datetime2(3) NOT NULL,
    CONSTRAINT [pk_policy_revisions] PRIMARY KEY CLUSTERED ([environment_id], [revision]),
    CONSTRAINT [uq_policy_revisions_policy] UNIQUE NONCLUSTERED ([environment_id], [revision], [policy_sha256]),
    CONSTRAINT [ck_policy_revisions_key] CHECK (DATALENGTH([environment_id]) = 36 AND DATALENGTH([policy_sha256]) = 71 AND DATALENGTH([trust_root_sha256]) = 71),
    CONSTRAINT [ck_policy_revisions_numbers] CHECK ([revision] >= 1 AND [revocation_epoch] >= 0),
    CONSTRAINT [ck_policy_revisions_policy] CHECK (DATALENGTH([policy_document]) > 0 AND DATALENGTH([policy_document]) <= 1048576),
    CONSTRAINT [ck_policy_revisions_root] CHECK (DATALENGTH([trust_root_document]) > 0 AND DATALENGTH([trust_root_document]) <= 1048576)
);

-- name: trigger_trust_version
-- The version row is written once, by the installer.
CREATE TRIGGER {{trust}}.[tr_trust_version] ON {{trust}}.[trust_version]
AFTER INSERT, UPDATE, DELETE
AS
BEGIN
    SET NOCOUNT ON;
    {{require_lock}}
    THROW 51000, 'DPONE_LEDGER: trust_version_immutable', 1;
END

-- name: trigger_policy_revisions
-- Revisions are append-only and without gaps, digests are those of the bytes, and a revocation epoch never goes back.
CREATE TRIGGER {{trust}}.[tr_policy_revisions] ON {{trust}}.[policy_revisions]
AFTER INSERT, UPDATE, DELETE
AS
BEGIN
    SET NOCOUNT ON;
    {{require_lock}}
    {{require_session}}
    IF EXISTS (SELECT 1 FROM deleted)
        THROW 51000, 'DPONE_LEDGER: policy_immutable', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i
               WHERE i.[policy_sha256] <> 'sha256:' + LOWER(CONVERT(varchar(64), HASHBYTES('SHA2_256', i.[policy_document]), 2))
                  OR i.[trust_root_sha256] <> 'sha256:' + LOWER(CONVERT(varchar(64), HASHBYTES('SHA2_256', i.[trust_root_document]), 2)))
        THROW 51000, 'DPONE_LEDGER: policy_digest', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i
               WHERE i.[revision] <> (SELECT COUNT(*) FROM {{trust}}.[policy_revisions] AS r WHERE r.[environment_id] = i.[environment_id]))
        THROW 51000, 'DPONE_LEDGER: policy_revision', 1;
    IF EXISTS (SELECT 1 FROM inserted AS i
               INNER JOIN {{trust}}.[policy_revisions] AS p ON p.[environment_id] = i.[environment_id] AND p.[revision] = i.[revision] - 1
               WHERE p.[revocation_epoch] > i.[revocation_epoch])
        THROW 51000, 'DPONE_LEDGER: policy_epoch', 1;
END
