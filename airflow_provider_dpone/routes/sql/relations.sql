-- name: inventory
-- Whether this account sees every definition of {{database}}, whose quoted name is the parameter; then every table and
-- view: schema, name, object id, type, creation and last change, digest of a view's text.
SELECT COALESCE(HAS_PERMS_BY_NAME(?, 'DATABASE', 'VIEW DEFINITION'), 0);
SELECT s.[name], o.[name], o.[object_id], RTRIM(o.[type]),
       CONVERT(varchar(27), o.[create_date], 126), CONVERT(varchar(27), o.[modify_date], 126),
       CONVERT(char(64), HASHBYTES('SHA2_256', m.[definition]), 2)
FROM {{database}}.[sys].[objects] AS o
INNER JOIN {{database}}.[sys].[schemas] AS s ON s.[schema_id] = o.[schema_id]
LEFT JOIN {{database}}.[sys].[sql_modules] AS m ON m.[object_id] = o.[object_id]
WHERE o.[type] IN ('U', 'V')
ORDER BY s.[name], o.[name];

-- name: columns
-- Every column of every table of {{database}}, with what decides how it is hashed. A CLR type has no system type's name.
SELECT c.[object_id], c.[name], COALESCE(t.[name], N'clr'), CONVERT(int, c.[max_length]), CONVERT(int, c.[precision]),
       CONVERT(int, c.[scale]), c.[collation_name],
       CASE WHEN c.[is_computed] = 1 THEN 'computed' WHEN c.[is_masked] = 1 THEN 'masked'
            WHEN c.[encryption_type] IS NOT NULL THEN 'encrypted' ELSE '' END
FROM {{database}}.[sys].[columns] AS c
INNER JOIN {{database}}.[sys].[objects] AS o ON o.[object_id] = c.[object_id]
LEFT JOIN {{database}}.[sys].[types] AS t ON t.[user_type_id] = c.[system_type_id]
WHERE o.[type] = 'U'
ORDER BY c.[object_id], c.[column_id];

-- name: count_rows
-- The number of rows of one table.
SELECT COUNT_BIG(*) FROM {{table}};

-- name: content
-- Rows of one table, and the sum of 64 bits of each row's hash: the order of the rows does not matter. The hash is named
-- once, because a server may evaluate an expression as often as it is named.
SELECT COUNT_BIG(*), SUM(CONVERT(decimal(38, 0), CONVERT(bigint, SUBSTRING(HASHBYTES('SHA2_256', {{row}}), 1, 8))))
FROM {{table}};

-- name: narrow_row
-- What the bytes of a row begin with when it fits 8,000 bytes.
0x

-- name: wide_row
-- What the bytes of a row begin with when it may not: everything added to it is unlimited too.
CONVERT(varbinary(max), 0x)

-- name: fixed
-- A value that always has the same number of bytes; one byte tells NULL apart.
CASE WHEN {{column}} IS NULL THEN 0x00 ELSE 0x01 + CONVERT(binary({{bytes}}), {{column}}) END

-- name: fixed_text
-- A number or a moment as text of one width, in a style that no setting of the session changes.
CASE WHEN {{column}} IS NULL THEN 0x00
     ELSE 0x01 + CONVERT(binary({{bytes}}), CONVERT(char({{bytes}}), {{column}}, {{style}})) END

-- name: variable
-- A value of any length: its number of bytes comes first, so that no two rows give the same bytes.
CASE WHEN {{column}} IS NULL THEN 0x00
     ELSE 0x01 + CONVERT(binary(8), DATALENGTH({{column}})) + CONVERT(varbinary({{bytes}}), {{column}}) END

-- name: old_text
-- The deprecated text and ntext, which become bytes only by way of their successors.
CASE WHEN {{column}} IS NULL THEN 0x00
     ELSE 0x01 + CONVERT(binary(8), DATALENGTH({{column}}))
          + CONVERT(varbinary(max), CONVERT({{successor}}, {{column}})) END
