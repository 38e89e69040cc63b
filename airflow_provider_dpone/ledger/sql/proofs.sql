-- Evidence, proofs and the end of an operation.

-- name: evidence_rows
-- Every evidence document of one operation in the order it was recorded.
DECLARE @operation varchar(71) = ?;
SELECT e.[evidence_kind], e.[evidence_sha256], e.[evidence_document], e.[recorded_order]
FROM {{extension}}.[evidence] AS e WHERE e.[operation_key] = @operation ORDER BY e.[recorded_order];

-- name: evidence_newest
-- The evidence document of one kind that an operation recorded last.
DECLARE @operation varchar(71) = ?;
DECLARE @kind varchar(64) = ?;
SELECT TOP (1) e.[evidence_sha256], e.[evidence_document]
FROM {{extension}}.[evidence] AS e WHERE e.[operation_key] = @operation AND e.[evidence_kind] = @kind ORDER BY e.[recorded_order] DESC;

-- name: evidence_exact
-- One evidence document of one operation by its kind and digest, and the operation's state.
DECLARE @operation varchar(71) = ?;
DECLARE @kind varchar(64) = ?;
DECLARE @digest varchar(71) = ?;
SELECT p.[state] FROM {{control}}.[composition_operations] AS p WHERE p.[operation_key] = @operation AND p.[operation_family] = 'execution';
SELECT e.[evidence_document] FROM {{extension}}.[evidence] AS e WHERE e.[operation_key] = @operation AND e.[evidence_kind] = @kind AND e.[evidence_sha256] = @digest;

-- name: evidence_digests
-- The digests of all evidence that is stored for @operation, byte for byte. Follows operation_by_key in one batch.
SELECT e.[evidence_sha256] FROM {{extension}}.[evidence] AS e
WHERE e.[operation_key] = @operation AND e.[evidence_sha256] = 'sha256:' + LOWER(CONVERT(varchar(64), HASHBYTES('SHA2_256', e.[evidence_document]), 2))
UNION
SELECT m.[evidence_sha256] FROM {{control}}.[composition_mssql_gate_evidence] AS m
WHERE m.[operation_key] = @operation AND m.[evidence_sha256] = 'sha256:' + LOWER(CONVERT(varchar(64), HASHBYTES('SHA2_256', m.[evidence_document]), 2));

-- name: declare_evidence
-- The operation whose evidence insert_evidence stores, and which end_operation ends. Stands first in its batch.
DECLARE @operation varchar(71) = ?;
DECLARE @evidence TABLE ([evidence_kind] varchar(64) COLLATE Latin1_General_100_BIN2 NOT NULL, [evidence_sha256] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL, [evidence_document] varbinary(max) NOT NULL);

-- name: insert_evidence
-- One evidence document of @operation, next in order, unless the same content of the same kind is there.
DELETE FROM @evidence;
INSERT INTO @evidence ([evidence_kind], [evidence_sha256], [evidence_document]) VALUES (?, ?, ?);
INSERT INTO {{extension}}.[evidence] ([operation_key], [recorded_order], [evidence_kind], [evidence_sha256], [evidence_document], [recorded_at])
SELECT @operation, (SELECT COUNT(*) + 1 FROM {{extension}}.[evidence] AS e WHERE e.[operation_key] = @operation), g.[evidence_kind], g.[evidence_sha256], g.[evidence_document], SYSUTCDATETIME()
FROM @evidence AS g
WHERE NOT EXISTS (SELECT 1 FROM {{extension}}.[evidence] AS e WHERE e.[operation_key] = @operation AND e.[evidence_kind] = g.[evidence_kind] AND e.[evidence_sha256] = g.[evidence_sha256]);

-- name: insert_proof
-- One proof of an execution operation.
INSERT INTO {{control}}.[composition_proofs] ([operation_key], [proof_kind], [proof_sha256], [operation_family], [proof_document]) VALUES (?, ?, ?, 'execution', ?);

-- name: end_operation
-- Binds the proof triplet to @operation and moves it from exactly one state to its end. Follows declare_evidence.
DECLARE @before varchar(16) = ?;
DECLARE @after varchar(16) = ?;
UPDATE {{control}}.[composition_operations]
SET [state] = @after, [closed_gates_proof_sha256] = ?, [quiescence_proof_sha256] = ?, [outcome_proof_sha256] = ?
WHERE [operation_key] = @operation AND [state] = @before;
IF @@ROWCOUNT <> 1
    THROW 51000, 'DPONE_LEDGER: operation_state', 1;
