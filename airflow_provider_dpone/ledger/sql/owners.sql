-- Activations: reading them, and the four steps of their life.

-- name: owner_rows
-- One execution owner by its key, its partitions with the state of their domains, and its unresolved operations.
DECLARE @owner varchar(71) = ?;
SELECT o.[owner_key], o.[owner_id], o.[subject_sha256], o.[subject_document], o.[state]
FROM {{control}}.[composition_owners] AS o WHERE o.[owner_key] = @owner AND o.[owner_kind] = 'execution';
SELECT od.[guard_id], od.[fencing_epoch], od.[claim_document], d.[fencing_epoch], d.[owner_key]
FROM {{control}}.[composition_owner_domains] AS od
INNER JOIN {{control}}.[composition_domains] AS d ON d.[guard_id] = od.[guard_id]
WHERE od.[owner_key] = @owner ORDER BY od.[guard_id];
SELECT p.[operation_key], p.[operation_family], p.[state]
FROM {{control}}.[composition_operations] AS p
WHERE p.[owner_key] = @owner AND p.[state] IN ('RUNNING', 'COMMIT_UNKNOWN') ORDER BY p.[operation_key];

-- name: all_owners
-- Every execution owner with its partitions, with or without those that are RETIRED.
DECLARE @retired bit = ?;
SELECT o.[owner_key], o.[owner_id], o.[subject_sha256], o.[subject_document], o.[state]
FROM {{control}}.[composition_owners] AS o WHERE o.[owner_kind] = 'execution' AND (@retired = 1 OR o.[state] <> 'RETIRED') ORDER BY o.[owner_id];
SELECT od.[owner_key], od.[guard_id], od.[fencing_epoch], od.[claim_document]
FROM {{control}}.[composition_owner_domains] AS od
INNER JOIN {{control}}.[composition_owners] AS o ON o.[owner_key] = od.[owner_key]
WHERE o.[owner_kind] = 'execution' AND (@retired = 1 OR o.[state] <> 'RETIRED') ORDER BY od.[owner_key], od.[guard_id];

-- name: owned_domains
-- Every domain with its identity, its epoch and who owns it: what a reservation is decided on.
SELECT d.[guard_id], d.[connector], d.[service_id], d.[physical_subject_sha256], d.[fencing_epoch], d.[owner_key], o.[owner_kind], o.[owner_id], o.[state]
FROM {{control}}.[composition_domains] AS d
LEFT JOIN {{control}}.[composition_owners] AS o ON o.[owner_key] = d.[owner_key];

-- name: insert_owner
-- The owner's immutable original, PREPARED.
DECLARE @owner varchar(71) = ?;
INSERT INTO {{control}}.[composition_owners] ([owner_key], [owner_kind], [owner_id], [subject_sha256], [subject_document], [state])
VALUES (@owner, 'execution', ?, ?, ?, 'PREPARED');

-- name: acquire_domain
-- Takes one unowned domain for @owner at its next epoch, and records the partition. Follows insert_owner in one batch.
UPDATE {{control}}.[composition_domains] SET [fencing_epoch] = [fencing_epoch] + 1, [owner_key] = @owner WHERE [guard_id] = ? AND [owner_key] IS NULL;
IF @@ROWCOUNT <> 1
    THROW 51000, 'DPONE_LEDGER: domain_acquisition', 1;
INSERT INTO {{control}}.[composition_owner_domains] ([owner_key], [guard_id], [claim_document], [fencing_epoch]) VALUES (@owner, ?, ?, ?);

-- name: advance_owner
-- Moves an execution owner from exactly one state to the next.
DECLARE @owner varchar(71) = ?;
DECLARE @before varchar(16) = ?;
DECLARE @after varchar(16) = ?;
UPDATE {{control}}.[composition_owners] SET [state] = @after WHERE [owner_key] = @owner AND [owner_kind] = 'execution' AND [state] = @before;
IF @@ROWCOUNT <> 1
    THROW 51000, 'DPONE_LEDGER: owner_state', 1;

-- name: release_domains
-- Gives up every domain of @owner, keeping the epochs. Follows advance_owner in one batch.
UPDATE {{control}}.[composition_domains] SET [owner_key] = NULL WHERE [owner_key] = @owner;
