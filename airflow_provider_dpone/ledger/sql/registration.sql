-- Registered grants.

-- name: registered_as
-- Where a consumed grant was registered.
SELECT g.[environment_id], g.[campaign_id] FROM {{registration}}.[grants] AS g WHERE g.[consumption_subject_sha256] = ?;

-- name: exclusive_rows
-- The grants that already stand for one qualification run, or for one execution grant id.
SELECT g.[consumption_subject_sha256] FROM {{registration}}.[grants] AS g WHERE g.[phase] = ? AND g.[exclusive_id] = ?;

-- name: campaign_rows
-- Every grant, ceiling and member of one campaign. The bundles stay on the server, which compares their digests.
DECLARE @environment varchar(36) = ?;
DECLARE @campaign varchar(36) = ?;
SELECT g.[registration_order], g.[registration_id], g.[consumption_subject_sha256], g.[phase], g.[grant_id], g.[subject_id], g.[exclusive_id], g.[workload_count],
    g.[trust_revision], g.[policy_sha256], g.[grant_sha256], g.[grant_document], g.[bundle_sha256], CONVERT(bigint, DATALENGTH(g.[signature_bundle])),
    'sha256:' + LOWER(CONVERT(varchar(64), HASHBYTES('SHA2_256', g.[signature_bundle]), 2)),
    g.[signature_subject_sha256], g.[signature_subject_document], g.[request_sha256], g.[request_document]
FROM {{registration}}.[grants] AS g WHERE g.[environment_id] = @environment AND g.[campaign_id] = @campaign ORDER BY g.[registration_order];
SELECT c.[consumption_subject_sha256], c.[ordinal], c.[workload_sha256], c.[max_validity_seconds], c.[max_workloads], c.[max_attempts], c.[max_source_rows], c.[max_source_bytes], c.[max_attempt_seconds]
FROM {{registration}}.[ceilings] AS c
INNER JOIN {{registration}}.[grants] AS g ON g.[consumption_subject_sha256] = c.[consumption_subject_sha256]
WHERE g.[environment_id] = @environment AND g.[campaign_id] = @campaign ORDER BY g.[registration_order], c.[ordinal];
SELECT m.[workload_sha256], m.[workload_document], m.[first_consumption_subject_sha256]
FROM {{registration}}.[memberships] AS m WHERE m.[environment_id] = @environment AND m.[campaign_id] = @campaign ORDER BY m.[workload_sha256];

-- name: bundle_of
-- The raw signature bundle of one grant.
SELECT g.[signature_bundle] FROM {{registration}}.[grants] AS g WHERE g.[consumption_subject_sha256] = ?;

-- name: insert_grant
-- One grant with its originals.
INSERT INTO {{registration}}.[grants] ([consumption_subject_sha256], [registration_id], [environment_id], [campaign_id], [registration_order], [phase], [grant_id], [subject_id], [exclusive_id], [workload_count], [trust_revision], [policy_sha256], [grant_sha256], [grant_document], [bundle_sha256], [signature_bundle], [signature_subject_sha256], [signature_subject_document], [request_sha256], [request_document], [registered_at]) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, CONVERT(varbinary(max), ?), ?, ?, NULLIF(?, ''), NULLIF(CONVERT(varbinary(max), ?), 0x), SYSUTCDATETIME());

-- name: insert_ceiling
-- The bounds of a grant, or of one of its workloads.
INSERT INTO {{registration}}.[ceilings] ([consumption_subject_sha256], [ordinal], [workload_sha256], [max_validity_seconds], [max_workloads], [max_attempts], [max_source_rows], [max_source_bytes], [max_attempt_seconds]) VALUES (?, ?, NULLIF(?, ''), ?, ?, ?, ?, ?, ?);

-- name: insert_member
-- One workload that is new to the campaign.
INSERT INTO {{registration}}.[memberships] ([environment_id], [campaign_id], [workload_sha256], [workload_document], [first_consumption_subject_sha256]) VALUES (?, ?, ?, ?, ?);

-- name: all_campaigns
-- Every campaign that has a registered grant, and the grants of which a complete audit reads the bundle.
SELECT DISTINCT g.[environment_id], g.[campaign_id] FROM {{registration}}.[grants] AS g ORDER BY g.[environment_id], g.[campaign_id];
SELECT g.[consumption_subject_sha256] FROM {{registration}}.[grants] AS g ORDER BY g.[consumption_subject_sha256];
