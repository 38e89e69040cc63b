-- The SQL Server login gate of an operation.

-- name: gate_rows
-- The gate of one operation, the operation's state, and the gate's original evidence.
DECLARE @operation varchar(71) = ?;
SELECT g.[operation_key], g.[login_sid], g.[login_name], g.[gate_state], g.[disabled_evidence_sha256], p.[state]
FROM {{control}}.[composition_login_gates] AS g
INNER JOIN {{control}}.[composition_operations] AS p ON p.[operation_key] = g.[operation_key]
WHERE g.[operation_key] = @operation;
SELECT m.[evidence_kind], m.[evidence_sha256], m.[evidence_document]
FROM {{control}}.[composition_mssql_gate_evidence] AS m WHERE m.[operation_key] = @operation;

-- name: advance_gate
-- Moves a gate from exactly one state to the next; closing it binds the digest of its stored evidence.
DECLARE @operation varchar(71) = ?;
DECLARE @before varchar(16) = ?;
DECLARE @after varchar(16) = ?;
DECLARE @evidence varchar(71) = NULLIF(?, '');
UPDATE {{control}}.[composition_login_gates] SET [gate_state] = @after, [disabled_evidence_sha256] = @evidence WHERE [operation_key] = @operation AND [gate_state] = @before;
IF @@ROWCOUNT <> 1
    THROW 51000, 'DPONE_LEDGER: gate_state', 1;

-- name: insert_gate_evidence
-- The original observation of one kind.
INSERT INTO {{control}}.[composition_mssql_gate_evidence] ([operation_key], [evidence_kind], [evidence_sha256], [evidence_document]) VALUES (?, ?, ?, ?);
