-- Operations: what admission is decided on, the admission itself, and reading operations back.

-- name: begin_guards
-- The scope of the attempt that asks for admission; add_guard follows for each guard in the same batch.
DECLARE @guards TABLE ([guard_id] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY);

-- name: add_guard
-- One guard of the scope.
INSERT INTO @guards ([guard_id]) VALUES (?);

-- name: admission_state
-- All that admission is decided on: owner, domains, blockers (qualification in any state: no proof ends one), tries, the workload's DAGs.
DECLARE @request varchar(71) = ?;
DECLARE @instance varchar(71) = ?;
DECLARE @workload nvarchar(1024) = ?;
SELECT o.[owner_key], o.[owner_id], o.[subject_sha256], o.[subject_document], o.[state]
FROM {{control}}.[composition_owners] AS o WHERE o.[owner_kind] = 'execution' AND o.[subject_sha256] = @request;
SELECT d.[guard_id], d.[fencing_epoch], d.[owner_key]
FROM {{control}}.[composition_domains] AS d INNER JOIN @guards AS g ON g.[guard_id] = d.[guard_id] ORDER BY d.[guard_id];
SELECT DISTINCT p.[operation_key], p.[operation_family], p.[state]
FROM {{control}}.[composition_operations] AS p
INNER JOIN {{control}}.[composition_operation_domains] AS s ON s.[operation_key] = p.[operation_key]
INNER JOIN @guards AS g ON g.[guard_id] = s.[guard_id]
WHERE p.[state] IN ('RUNNING', 'COMMIT_UNKNOWN') OR p.[operation_family] = 'qualification' ORDER BY p.[operation_key];
SELECT c.[operation_key], c.[try_number], p.[state], p.[owner_subject_sha256]
FROM {{extension}}.[attempt_coordinates] AS c
INNER JOIN {{control}}.[composition_operations] AS p ON p.[operation_key] = c.[operation_key]
WHERE c.[instance_sha256] = @instance ORDER BY c.[try_number];
SELECT DISTINCT c.[dag_id]
FROM {{extension}}.[attempt_coordinates] AS c
INNER JOIN {{control}}.[composition_operations] AS p ON p.[operation_key] = c.[operation_key]
WHERE p.[owner_subject_sha256] = @request AND c.[workload_id] = @workload;

-- name: insert_operation
-- The operation's immutable original and its coordinates, RUNNING.
DECLARE @operation varchar(71) = ?;
DECLARE @owner varchar(71) = ?;
DECLARE @subject varchar(71) = ?;
INSERT INTO {{control}}.[composition_operations] ([operation_key], [operation_family], [owner_key], [owner_subject_sha256], [replay_key], [operation_document], [state], [closed_gates_proof_sha256], [quiescence_proof_sha256], [outcome_proof_sha256])
VALUES (@operation, 'execution', @owner, @subject, @operation, ?, 'RUNNING', NULL, NULL, NULL);
INSERT INTO {{extension}}.[attempt_coordinates] ([operation_key], [instance_sha256], [try_number], [map_index], [dag_id], [run_id], [task_id], [workload_id], [task_instance_id], [mapped_input_sha256], [admitted_at])
VALUES (@operation, ?, ?, ?, ?, ?, ?, ?, ?, NULLIF(?, ''), SYSUTCDATETIME());

-- name: insert_operation_domain
-- One guard of @operation at its epoch. Follows insert_operation in one batch.
INSERT INTO {{control}}.[composition_operation_domains] ([operation_key], [guard_id], [owner_key], [fencing_epoch]) VALUES (@operation, ?, @owner, ?);

-- name: insert_principal
-- One random identity that @operation may write with. Follows insert_operation in one batch.
INSERT INTO {{control}}.[composition_issued_authorities] ([operation_key], [connector], [service_id], [principal_id], [principal_name], [purpose]) VALUES (@operation, ?, ?, ?, ?, ?);

-- name: insert_login_gate
-- The gate of the operation's SQL Server login, JOURNALED. Follows insert_principal in one batch.
INSERT INTO {{control}}.[composition_login_gates] ([operation_key], [login_sid], [login_name], [gate_state], [disabled_evidence_sha256]) VALUES (@operation, ?, ?, 'JOURNALED', NULL);

-- name: begin_keys
-- The execution operations that operation_rows reads.
DECLARE @keys TABLE ([operation_key] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY);

-- name: operation_rows
-- The complete rows of the operations in @keys: six result sets.
SELECT p.[operation_key], p.[owner_key], o.[owner_id], p.[owner_subject_sha256], p.[replay_key], p.[operation_document], p.[state], p.[closed_gates_proof_sha256], p.[quiescence_proof_sha256], p.[outcome_proof_sha256]
FROM {{control}}.[composition_operations] AS p
INNER JOIN @keys AS k ON k.[operation_key] = p.[operation_key]
INNER JOIN {{control}}.[composition_owners] AS o ON o.[owner_key] = p.[owner_key];
SELECT s.[operation_key], s.[guard_id], s.[owner_key], s.[fencing_epoch]
FROM {{control}}.[composition_operation_domains] AS s INNER JOIN @keys AS k ON k.[operation_key] = s.[operation_key] ORDER BY s.[operation_key], s.[guard_id];
SELECT c.[operation_key], c.[dag_id], c.[run_id], c.[task_id], c.[map_index], c.[try_number], c.[task_instance_id], c.[mapped_input_sha256], c.[instance_sha256], c.[workload_id], CONVERT(varchar(23), c.[admitted_at], 126)
FROM {{extension}}.[attempt_coordinates] AS c INNER JOIN @keys AS k ON k.[operation_key] = c.[operation_key];
SELECT a.[operation_key], a.[connector], a.[service_id], a.[principal_id], a.[principal_name], a.[purpose]
FROM {{control}}.[composition_issued_authorities] AS a INNER JOIN @keys AS k ON k.[operation_key] = a.[operation_key] ORDER BY a.[operation_key], a.[connector], a.[service_id], a.[principal_id];
SELECT f.[operation_key], f.[proof_kind], f.[proof_sha256], f.[proof_document]
FROM {{control}}.[composition_proofs] AS f INNER JOIN @keys AS k ON k.[operation_key] = f.[operation_key];
SELECT g.[operation_key], g.[login_sid], g.[login_name], g.[gate_state], g.[disabled_evidence_sha256]
FROM {{control}}.[composition_login_gates] AS g INNER JOIN @keys AS k ON k.[operation_key] = g.[operation_key];

-- name: operation_by_key
-- One operation by its key.
DECLARE @operation varchar(71) = ?;
DECLARE @keys TABLE ([operation_key] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY);
INSERT INTO @keys ([operation_key]) SELECT p.[operation_key] FROM {{control}}.[composition_operations] AS p WHERE p.[operation_key] = @operation AND p.[operation_family] = 'execution';
{{operation_rows}}

-- name: operations_by_instance
-- Every try of one task instance.
DECLARE @instance varchar(71) = ?;
DECLARE @keys TABLE ([operation_key] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY);
INSERT INTO @keys ([operation_key]) SELECT c.[operation_key] FROM {{extension}}.[attempt_coordinates] AS c WHERE c.[instance_sha256] = @instance;
{{operation_rows}}

-- name: operations_unresolved
-- Every RUNNING or COMMIT_UNKNOWN execution operation.
DECLARE @keys TABLE ([operation_key] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY);
INSERT INTO @keys ([operation_key]) SELECT p.[operation_key] FROM {{control}}.[composition_operations] AS p WHERE p.[state] IN ('RUNNING', 'COMMIT_UNKNOWN') AND p.[operation_family] = 'execution';
{{operation_rows}}

-- name: operations_recent
-- The execution operations that were admitted last, of one DAG, run or task where they are not empty, all or unresolved ones.
DECLARE @limit int = ?;
DECLARE @dag nvarchar(1024) = ?;
DECLARE @run nvarchar(1024) = ?;
DECLARE @task nvarchar(1024) = ?;
DECLARE @unresolved bit = ?;
DECLARE @keys TABLE ([operation_key] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY);
INSERT INTO @keys ([operation_key]) SELECT TOP (@limit) c.[operation_key] FROM {{extension}}.[attempt_coordinates] AS c
INNER JOIN {{control}}.[composition_operations] AS p ON p.[operation_key] = c.[operation_key]
WHERE (@unresolved = 0 OR p.[state] IN ('RUNNING', 'COMMIT_UNKNOWN')) AND (@dag = N'' OR c.[dag_id] = @dag) AND (@run = N'' OR c.[run_id] = @run) AND (@task = N'' OR c.[task_id] = @task)
ORDER BY c.[admitted_at] DESC, c.[operation_key];
{{operation_rows}}

-- name: blockers
-- Operations that block admission on the guards in @guards: unresolved ones, and any of the qualification family.
SELECT p.[operation_key], p.[operation_family], p.[state], o.[owner_id], s.[guard_id]
FROM {{control}}.[composition_operations] AS p
INNER JOIN {{control}}.[composition_owners] AS o ON o.[owner_key] = p.[owner_key]
INNER JOIN {{control}}.[composition_operation_domains] AS s ON s.[operation_key] = p.[operation_key]
INNER JOIN @guards AS g ON g.[guard_id] = s.[guard_id]
WHERE p.[state] IN ('RUNNING', 'COMMIT_UNKNOWN') OR p.[operation_family] = 'qualification' ORDER BY p.[operation_key], s.[guard_id];
