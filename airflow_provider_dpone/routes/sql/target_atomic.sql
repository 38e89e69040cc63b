-- name: columns
-- The columns of {{table}} as the target declares them, in order.
SELECT c.[name], t.[name], CONVERT(int, c.[max_length]), CONVERT(int, c.[precision]), CONVERT(int, c.[scale]),
       CONVERT(int, c.[is_nullable]), CONVERT(int, c.[is_identity]), CONVERT(int, c.[is_computed]),
       CONVERT(int, COLLATIONPROPERTY(c.[collation_name], 'CodePage'))
FROM [sys].[columns] AS c
INNER JOIN [sys].[types] AS t ON t.[user_type_id] = c.[user_type_id]
WHERE c.[object_id] = OBJECT_ID(?, N'U')
ORDER BY c.[column_id];

-- name: left_staging
-- Tables whose names begin as the staging tables of one target do.
SELECT t.[name]
FROM [sys].[tables] AS t
INNER JOIN [sys].[schemas] AS s ON s.[schema_id] = t.[schema_id]
WHERE s.[name] = ? AND CHARINDEX(?, t.[name]) = 1
ORDER BY t.[name];

-- name: create_staging
-- An empty table of the target's columns; the UNION ALL keeps an identity property from being copied.
SELECT TOP (0) * INTO {{staging}} FROM {{target}} UNION ALL SELECT TOP (0) * FROM {{target}};

-- name: drop
-- Removes one staging table.
DROP TABLE {{staging}};

-- name: replace
-- The whole content of the target becomes the content of the staging table. Runs while the fence is held.
DELETE FROM {{target}};
INSERT INTO {{target}} ({{columns}}) SELECT {{columns}} FROM {{staging}};

-- name: verify
-- Rows in the target, and rows of the staging table that the target does not hold exactly.
SELECT (SELECT COUNT_BIG(*) FROM {{target}}),
       (SELECT COUNT_BIG(*) FROM (SELECT {{columns}} FROM {{staging}} EXCEPT SELECT {{columns}} FROM {{target}}) AS d);
