-- name: inventory
-- Every table and view of {{database}}: schema, name, object id, type, creation and last change.
SELECT s.[name], o.[name], o.[object_id], RTRIM(o.[type]),
       CONVERT(varchar(27), o.[create_date], 126), CONVERT(varchar(27), o.[modify_date], 126)
FROM {{database}}.[sys].[objects] AS o
INNER JOIN {{database}}.[sys].[schemas] AS s ON s.[schema_id] = o.[schema_id]
WHERE o.[type] IN ('U', 'V')
ORDER BY s.[name], o.[name];

-- name: count_rows
-- The number of rows of one table.
SELECT COUNT_BIG(*) FROM {{table}};
