-- Evidence, proofs and the end of an operation.

-- name: evidence_rows
-- Every evidence document of one operation in the order it was recorded, and the originals of its SQL Server gate.
DECLARE @operation varchar(71) = ?;
SELECT e.[evidence_kind], e.[evidence_sha256], e.[evidence_document], e.[recorded_order]
FROM {{extension}}.[evidence] AS e WHERE e.[operation_key] = @operation ORDER BY e.[recorded_order];
SELECT m.[evidence_kind], m.[evidence_sha256], m.[evidence_document]
FROM {{control}}.[composition_mssql_gate_evidence] AS m WHERE m.[operation_key] = @operation ORDER BY m.[evidence_kind];

-- name: evidence_digests
-- The digests of all evidence that is stored for one operation.
DECLARE @operation varchar(71) = ?;
SELECT e.[evidence_sha256] FROM {{extension}}.[evidence] AS e WHERE e.[operation_key] = @operation
UNION
SELECT m.[evidence_sha256] FROM {{control}}.[composition_mssql_gate_evidence] AS m WHERE m.[operation_key] = @operation;

-- name: insert_evidence
-- One evidence document, next in order, unless the same content of the same kind is there.
DECLARE @operation varchar(71) = ?;
DECLARE @kind varchar(64) = ?;
DECLARE @digest varchar(71) = ?;
DECLARE @document varbinary(max) = ?;
DECLARE @order int;
IF NOT EXISTS (SELECT 1 FROM {{extension}}.[evidence] AS e WHERE e.[operation_key] = @operation AND e.[evidence_kind] = @kind AND e.[evidence_sha256] = @digest)
BEGIN
    SET @order = (SELECT COUNT(*) + 1 FROM {{extension}}.[evidence] AS e WHERE e.[operation_key] = @operation);
    INSERT INTO {{extension}}.[evidence] ([operation_key], [recorded_order], [evidence_kind], [evidence_sha256], [evidence_document], [recorded_at])
    VALUES (@operation, @order, @kind, @digest, @document, SYSUTCDATETIME());
END;

-- name: insert_proof
-- One proof of an execution operation.
INSERT INTO {{control}}.[composition_proofs] ([operation_key], [proof_kind], [proof_sha256], [operation_family], [proof_document]) VALUES (?, ?, ?, 'execution', ?);

-- name: end_operation
-- Binds the proof triplet to the operation and moves it from exactly one state to its end.
DECLARE @operation varchar(71) = ?;
DECLARE @before varchar(16) = ?;
DECLARE @after varchar(16) = ?;
UPDATE {{control}}.[composition_operations]
SET [state] = @after, [closed_gates_proof_sha256] = ?, [quiescence_proof_sha256] = ?, [outcome_proof_sha256] = ?
WHERE [operation_key] = @operation AND [state] = @before;
IF @@ROWCOUNT <> 1
    THROW 51000, 'DPONE_LEDGER: operation_state', 1;
