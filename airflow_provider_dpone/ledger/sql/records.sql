-- Snapshot records and source charges.

-- name: snapshot_rows
-- Every revision of one operation's snapshot record, and the operation's state.
DECLARE @operation varchar(71) = ?;
SELECT p.[state] FROM {{control}}.[composition_operations] AS p WHERE p.[operation_key] = @operation AND p.[operation_family] = 'execution';
SELECT r.[revision], r.[state], r.[record_sha256], r.[record_document]
FROM {{extension}}.[snapshot_records] AS r WHERE r.[operation_key] = @operation ORDER BY r.[revision];

-- name: insert_snapshot
-- The next revision of a snapshot record.
INSERT INTO {{extension}}.[snapshot_records] ([operation_key], [revision], [state], [record_sha256], [record_document]) VALUES (?, ?, ?, ?, ?);

-- name: charge_rows
-- The owner's state and every charge of one workload in order.
DECLARE @owner varchar(71) = ?;
DECLARE @workload varchar(71) = ?;
SELECT o.[state] FROM {{control}}.[composition_owners] AS o WHERE o.[owner_key] = @owner AND o.[owner_kind] = 'execution';
SELECT c.[charge_number], c.[charge_id], c.[charged_bytes], c.[cumulative_bytes], c.[ceiling_bytes]
FROM {{extension}}.[source_charges] AS c WHERE c.[owner_key] = @owner AND c.[workload_sha256] = @workload ORDER BY c.[charge_number];

-- name: insert_charge
-- One charge, before the bytes are read.
INSERT INTO {{extension}}.[source_charges] ([owner_key], [workload_sha256], [charge_number], [charge_id], [operation_key], [charged_bytes], [cumulative_bytes], [ceiling_bytes]) VALUES (?, ?, ?, ?, NULLIF(?, ''), ?, ?, ?);
