-- The two optional groups: how they are installed, audited and given rights on.

-- name: require_session
-- Refuses a write of a session whose options change what is stored: cut texts, padding, or NULL in a concatenation.
IF @@OPTIONS & 4472 <> 4472 OR @@OPTIONS & 8192 <> 0
        THROW 51000, 'DPONE_LEDGER: session_options', 1;

-- name: sound_session
-- The options that the groups' triggers ask for, whatever the driver's defaults are.
SET ANSI_NULLS ON;
SET ANSI_PADDING ON;
SET ANSI_WARNINGS ON;
SET ARITHABORT ON;
SET CONCAT_NULL_YIELDS_NULL ON;
SET QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF;

-- name: audit_trust
-- The trust group as it is: version, service and pinned digest (nothing where there is no version row), and both digests.
IF OBJECT_ID({{trust_version_text}}, N'U') IS NOT NULL
    SELECT [group_version], [service_id], [checks_sha256] FROM {{trust}}.[trust_version];
ELSE
    SELECT 0, '', '' WHERE 1 = 0;
SELECT 'sha256:' + LOWER(CONVERT(varchar(64), HASHBYTES('SHA2_256', STRING_AGG(CONVERT(nvarchar(max), c.[line]), NCHAR(10)) WITHIN GROUP (ORDER BY c.[line])), 2))
FROM ({{trust_catalog}}) AS c;
SELECT 'sha256:' + LOWER(CONVERT(varchar(64), HASHBYTES('SHA2_256', STRING_AGG(CONVERT(nvarchar(max), k.[line]), NCHAR(10)) WITHIN GROUP (ORDER BY k.[line])), 2))
FROM ({{trust_checks}}) AS k;

-- name: audit_registration
-- The same of the registration group.
IF OBJECT_ID({{registration_version_text}}, N'U') IS NOT NULL
    SELECT [group_version], [service_id], [checks_sha256] FROM {{registration}}.[registration_version];
ELSE
    SELECT 0, '', '' WHERE 1 = 0;
SELECT 'sha256:' + LOWER(CONVERT(varchar(64), HASHBYTES('SHA2_256', STRING_AGG(CONVERT(nvarchar(max), c.[line]), NCHAR(10)) WITHIN GROUP (ORDER BY c.[line])), 2))
FROM ({{registration_catalog}}) AS c;
SELECT 'sha256:' + LOWER(CONVERT(varchar(64), HASHBYTES('SHA2_256', STRING_AGG(CONVERT(nvarchar(max), k.[line]), NCHAR(10)) WITHIN GROUP (ORDER BY k.[line])), 2))
FROM ({{registration_checks}}) AS k;

-- name: trust_catalog_lines
-- The catalog of the trust group as lines, to name what differs.
SELECT c.[line] FROM ({{trust_catalog}}) AS c ORDER BY c.[line];

-- name: registration_catalog_lines
-- The catalog of the registration group as lines, to name what differs.
SELECT c.[line] FROM ({{registration_catalog}}) AS c ORDER BY c.[line];

-- name: create_trust_schema
-- The schema of the trust group.
CREATE SCHEMA {{trust}} AUTHORIZATION [dbo];

-- name: create_registration_schema
-- The schema of the registration group.
CREATE SCHEMA {{registration}} AUTHORIZATION [dbo];

-- name: seed_trust_version
-- The version row of the trust group, written before its trigger exists.
INSERT INTO {{trust}}.[trust_version] ([singleton], [group_version], [service_id], [checks_sha256])
SELECT 1, 1, {{service_text}}, 'sha256:' + LOWER(CONVERT(varchar(64), HASHBYTES('SHA2_256', STRING_AGG(CONVERT(nvarchar(max), k.[line]), NCHAR(10)) WITHIN GROUP (ORDER BY k.[line])), 2))
FROM ({{trust_checks}}) AS k;

-- name: seed_registration_version
-- The version row of the registration group, written before its trigger exists.
INSERT INTO {{registration}}.[registration_version] ([singleton], [group_version], [service_id], [checks_sha256])
SELECT 1, 1, {{service_text}}, 'sha256:' + LOWER(CONVERT(varchar(64), HASHBYTES('SHA2_256', STRING_AGG(CONVERT(nvarchar(max), k.[line]), NCHAR(10)) WITHIN GROUP (ORDER BY k.[line])), 2))
FROM ({{registration_checks}}) AS k;

-- name: group_user
-- The user of a login in the control database; a login of another role may have one already.
IF DATABASE_PRINCIPAL_ID({{user_text}}) IS NULL
    CREATE USER {{user}} FOR LOGIN {{user}};

-- name: grant_audited
-- What every account of the groups needs to know that it speaks to this ledger: two rows, and the definitions.
GRANT SELECT ON OBJECT::{{control}}.[composition_authority] TO {{user}};
GRANT SELECT ON OBJECT::{{extension}}.[incarnation] TO {{user}};
GRANT VIEW DEFINITION ON SCHEMA::{{control}} TO {{user}};
GRANT VIEW DEFINITION ON SCHEMA::{{extension}} TO {{user}};

-- name: grant_trust_reader
-- To read the trust group.
GRANT SELECT, VIEW DEFINITION ON SCHEMA::{{trust}} TO {{user}};

-- name: grant_registration_reader
-- To read the registration group.
GRANT SELECT, VIEW DEFINITION ON SCHEMA::{{registration}} TO {{user}};

-- name: grant_trust_provisioner
-- To append policy revisions: never to change or delete one, nor to define anything.
GRANT INSERT ON OBJECT::{{trust}}.[policy_revisions] TO {{user}};

-- name: grant_registrar
-- To append registrations: never to change or delete one, to write trust, or to define anything.
GRANT INSERT ON OBJECT::{{registration}}.[grants] TO {{user}};
GRANT INSERT ON OBJECT::{{registration}}.[ceilings] TO {{user}};
GRANT INSERT ON OBJECT::{{registration}}.[memberships] TO {{user}};
