-- Nonproduction policy revisions.

-- name: lock_mode
-- Which control lock this transaction holds. A statement of its own: outside of a transaction the function is an error.
IF @@TRANCOUNT = 1 AND XACT_STATE() = 1
    SELECT APPLOCK_MODE(N'public', N'dpone:composition-control:v1', N'Transaction');
ELSE
    SELECT N'NoLock';

-- name: policy_rows
-- Every revision of one environment in order.
SELECT r.[revision], r.[policy_sha256], r.[policy_document], r.[trust_root_sha256], r.[trust_root_document], r.[revocation_epoch]
FROM {{trust}}.[policy_revisions] AS r WHERE r.[environment_id] = ? ORDER BY r.[revision];

-- name: insert_policy
-- The next revision.
INSERT INTO {{trust}}.[policy_revisions] ([environment_id], [revision], [policy_sha256], [policy_document], [trust_root_sha256], [trust_root_document], [revocation_epoch], [recorded_at]) VALUES (?, ?, ?, ?, ?, ?, ?, SYSUTCDATETIME());

-- name: all_environments
-- Every environment that has a policy.
SELECT DISTINCT r.[environment_id] FROM {{trust}}.[policy_revisions] AS r ORDER BY r.[environment_id];
