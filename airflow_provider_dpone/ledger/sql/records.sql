-- Snapshot records, source charges and gate receipts.

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

-- name: gate_receipts
-- The ledger's class of authority, the server by its own words, and every recorded receipt: what opens an activation's door.
SELECT i.[authority_class], CONVERT(nvarchar(400), @@VERSION), CONVERT(nvarchar(128), SERVERPROPERTY('ProductVersion'))
FROM {{extension}}.[incarnation] AS i;
SELECT g.[receipt_sha256], g.[engine_name], g.[engine_product_version], g.[product_version], g.[receipt_document]
FROM {{extension}}.[gate_receipts] AS g ORDER BY g.[recorded_at], g.[receipt_sha256];

-- name: insert_receipt
-- One green receipt.
INSERT INTO {{extension}}.[gate_receipts] ([receipt_sha256], [engine_name], [engine_product_version], [product_version], [receipt_document], [recorded_at]) VALUES (?, ?, ?, ?, ?, SYSUTCDATETIME());
