-- The complete history scan: every original, independent of partitions and of domain pointers, in set-based statements.
-- An original is exact JSON with sorted keys, so what it begins and ends with stands at known bytes. Comparing those says
-- more than finding a text somewhere, and does not make text of every document. CHARINDEX is for what has no place.

-- name: history
-- Keys of rows that contradict the history. Nine result sets, each empty in an intact ledger; see history.py for names.
SELECT d.[guard_id]
FROM {{control}}.[composition_domains] AS d
LEFT JOIN (SELECT od.[guard_id], COUNT_BIG(*) AS [held], MIN(od.[fencing_epoch]) AS [first_epoch], MAX(od.[fencing_epoch]) AS [last_epoch]
           FROM {{control}}.[composition_owner_domains] AS od GROUP BY od.[guard_id]) AS e ON e.[guard_id] = d.[guard_id]
WHERE ISNULL(e.[held], 0) <> d.[fencing_epoch] OR ISNULL(e.[last_epoch], 0) <> d.[fencing_epoch]
   OR (d.[fencing_epoch] > 0 AND e.[first_epoch] <> 1);
SELECT d.[guard_id]
FROM {{control}}.[composition_domains] AS d
INNER JOIN {{control}}.[composition_owner_domains] AS od ON od.[guard_id] = d.[guard_id] AND od.[fencing_epoch] = d.[fencing_epoch]
INNER JOIN {{control}}.[composition_owners] AS o ON o.[owner_key] = od.[owner_key]
WHERE (d.[owner_key] IS NOT NULL AND (d.[owner_key] <> od.[owner_key] OR o.[state] IN ('RETIRED', 'TRANSFERRED')))
   OR (d.[owner_key] IS NULL AND o.[state] NOT IN ('RETIRED', 'TRANSFERRED'));
SELECT o.[owner_key]
FROM {{control}}.[composition_owners] AS o
WHERE o.[subject_sha256] <> 'sha256:' + LOWER(CONVERT(varchar(64), HASHBYTES('SHA2_256', o.[subject_document]), 2))
   OR o.[owner_key] <> 'sha256:' + LOWER(CONVERT(varchar(64), HASHBYTES('SHA2_256', '{"owner_id":"' + o.[owner_id] + '","owner_kind":"' + o.[owner_kind] + '","schema":"dpone.composition-control-owner-key.v2"}'), 2))
   OR (o.[owner_kind] = 'execution' AND SUBSTRING(o.[subject_document], 1, 66) <> CONVERT(varbinary(66), '{"context":{"activation_id":"' + o.[owner_id] + '"'));
SELECT o.[owner_key]
FROM {{control}}.[composition_owners] AS o
LEFT JOIN {{control}}.[composition_owner_domains] AS od ON od.[owner_key] = o.[owner_key]
WHERE od.[guard_id] IS NULL
   OR (o.[owner_kind] = 'execution' AND CHARINDEX('"guard_id":"' + od.[guard_id] + '"', CONVERT(varchar(max), o.[subject_document])) = 0);
SELECT p.[operation_key]
FROM {{control}}.[composition_operations] AS p
INNER JOIN {{control}}.[composition_owners] AS o ON o.[owner_key] = p.[owner_key]
LEFT JOIN {{extension}}.[attempt_coordinates] AS c ON c.[operation_key] = p.[operation_key]
WHERE p.[operation_key] <> 'sha256:' + LOWER(CONVERT(varchar(64), HASHBYTES('SHA2_256', p.[operation_document]), 2))
   OR p.[owner_subject_sha256] <> o.[subject_sha256] OR p.[operation_family] <> o.[owner_kind]
   OR (p.[operation_family] = 'execution'
       AND (p.[replay_key] <> p.[operation_key]
            OR SUBSTRING(p.[operation_document], 1, 102) <> CONVERT(varbinary(102), '{"activation_request_sha256":"' + p.[owner_subject_sha256] + '"')
            OR c.[operation_key] IS NULL
            OR CHARINDEX('"map_index":' + CONVERT(varchar(11), c.[map_index]) + ',"pack_sha256":"', CONVERT(varchar(max), p.[operation_document]) COLLATE Latin1_General_100_BIN2) = 0
            OR CHARINDEX('"try_number":' + CONVERT(varchar(11), c.[try_number]) + ',"workload_id":"', CONVERT(varchar(max), p.[operation_document]) COLLATE Latin1_General_100_BIN2) = 0))
   OR (o.[state] IN ('RETIRED', 'TRANSFERRED') AND p.[state] IN ('RUNNING', 'COMMIT_UNKNOWN'));
SELECT p.[operation_key]
FROM {{control}}.[composition_operations] AS p
LEFT JOIN (SELECT s.[operation_key], STRING_AGG(CONVERT(varchar(max), '["' + s.[guard_id] + '",' + CONVERT(varchar(20), s.[fencing_epoch]) + ']'), ',') WITHIN GROUP (ORDER BY s.[guard_id]) AS [epochs]
           FROM {{control}}.[composition_operation_domains] AS s GROUP BY s.[operation_key]) AS g ON g.[operation_key] = p.[operation_key]
WHERE g.[epochs] IS NULL
   OR CHARINDEX('"guard_epochs":[' + g.[epochs] + '],"', CONVERT(varchar(max), p.[operation_document])) = 0;
SELECT p.[operation_key]
FROM {{control}}.[composition_operations] AS p
LEFT JOIN {{control}}.[composition_proofs] AS c ON c.[operation_key] = p.[operation_key] AND c.[proof_kind] = 'CLOSED_GATES' AND c.[proof_sha256] = p.[closed_gates_proof_sha256]
LEFT JOIN {{control}}.[composition_proofs] AS q ON q.[operation_key] = p.[operation_key] AND q.[proof_kind] = 'QUIESCENCE' AND q.[proof_sha256] = p.[quiescence_proof_sha256]
LEFT JOIN {{control}}.[composition_proofs] AS r ON r.[operation_key] = p.[operation_key] AND r.[proof_kind] = 'OUTCOME' AND r.[proof_sha256] = p.[outcome_proof_sha256]
WHERE p.[state] <> 'RUNNING'
  AND (c.[proof_sha256] IS NULL OR q.[proof_sha256] IS NULL OR r.[proof_sha256] IS NULL
       OR SUBSTRING(r.[proof_document], DATALENGTH(r.[proof_document]) - DATALENGTH(p.[state]) - 81, DATALENGTH(p.[state]) + 82)
          <> CONVERT(varbinary(128), '"kind":"OUTCOME","outcome_state":"' + p.[state] + '","schema":"dpone.composition-attempt-proof.v1"}'));
SELECT p.[operation_key]
FROM {{control}}.[composition_proofs] AS p
LEFT JOIN (SELECT i.[operation_key], STRING_AGG(CONVERT(varchar(max), '{"connector":"' + i.[connector] + '","principal_id":"' + i.[principal_id] + '","service_id":"' + i.[service_id] + '"}'), ',') WITHIN GROUP (ORDER BY i.[connector] + '|' + i.[service_id] + '|' + i.[principal_id]) AS [names]
           FROM {{control}}.[composition_issued_authorities] AS i WHERE i.[connector] <> 'postgres' GROUP BY i.[operation_key]) AS a ON a.[operation_key] = p.[operation_key]
WHERE p.[proof_sha256] <> 'sha256:' + LOWER(CONVERT(varchar(64), HASHBYTES('SHA2_256', p.[proof_document]), 2))
   OR a.[names] IS NULL
   OR SUBSTRING(p.[proof_document], 104, DATALENGTH(a.[names]) + 127)
      <> CONVERT(varbinary(max), '"attempt_sha256":"' + p.[operation_key] + '","authorities":[' + a.[names] + '],"evidence_sha256":"')
   OR (p.[proof_kind] <> 'OUTCOME' AND SUBSTRING(p.[proof_document], DATALENGTH(p.[proof_document]) - DATALENGTH(p.[proof_kind]) - 76, DATALENGTH(p.[proof_kind]) + 77)
       <> CONVERT(varbinary(128), '"kind":"' + p.[proof_kind] + '","outcome_state":null,"schema":"dpone.composition-attempt-proof.v1"}'))
   OR (p.[proof_kind] = 'OUTCOME' AND CHARINDEX('"kind":"OUTCOME"', CONVERT(varchar(96), SUBSTRING(p.[proof_document], DATALENGTH(p.[proof_document]) - 95, 96)) COLLATE Latin1_General_100_BIN2) = 0);
SELECT a.[operation_key]
FROM {{control}}.[composition_issued_authorities] AS a
INNER JOIN {{control}}.[composition_operations] AS p ON p.[operation_key] = a.[operation_key]
LEFT JOIN {{control}}.[composition_login_gates] AS g ON g.[operation_key] = a.[operation_key]
LEFT JOIN {{control}}.[composition_mssql_gate_evidence] AS e ON e.[operation_key] = g.[operation_key] AND e.[evidence_kind] = 'CLOSED_GATES' AND e.[evidence_sha256] = g.[disabled_evidence_sha256]
WHERE a.[connector] = 'mssql'
  AND (g.[operation_key] IS NULL
       OR a.[principal_id] <> 'mssql-sid:' + LOWER(CONVERT(varchar(32), g.[login_sid], 2)) OR a.[principal_name] <> g.[login_name]
       OR (g.[gate_state] = 'CLOSED' AND (e.[evidence_sha256] IS NULL OR e.[evidence_sha256] <> 'sha256:' + LOWER(CONVERT(varchar(64), HASHBYTES('SHA2_256', e.[evidence_document]), 2))))
       OR (g.[gate_state] <> 'CLOSED' AND (p.[state] <> 'RUNNING' OR EXISTS (SELECT 1 FROM {{control}}.[composition_proofs] AS f WHERE f.[operation_key] = a.[operation_key]))));
