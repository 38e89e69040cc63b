"""The words and operators that the grammar knows."""

from __future__ import annotations

# Words that cannot be a name without brackets (the reserved words that matter to this grammar).
RESERVED = frozenset(
    {
        "ADD", "ALL", "ALTER", "AND", "ANY", "AS", "ASC", "AUTHORIZATION", "BACKUP", "BEGIN", "BETWEEN",
        "BREAK", "BROWSE", "BULK", "BY", "CASCADE", "CASE", "CHECK", "CHECKPOINT", "CLOSE", "CLUSTERED",
        "COALESCE", "COLLATE", "COLUMN", "COMMIT", "COMPUTE", "CONSTRAINT", "CONTAINS", "CONTINUE", "CONVERT",
        "CREATE", "CROSS", "CURRENT", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "CURRENT_USER",
        "CURSOR", "DATABASE", "DBCC", "DEALLOCATE", "DECLARE", "DEFAULT", "DELETE", "DENY", "DESC",
        "DISTINCT", "DISTRIBUTED", "DOUBLE", "DROP", "ELSE", "END", "ERRLVL", "ESCAPE", "EXCEPT", "EXEC",
        "EXECUTE", "EXISTS", "EXIT", "EXTERNAL", "FETCH", "FILE", "FILLFACTOR", "FOR", "FOREIGN", "FREETEXT",
        "FROM", "FULL", "FUNCTION", "GOTO", "GRANT", "GROUP", "HAVING", "HOLDLOCK", "IDENTITY",
        "IDENTITY_INSERT", "IF", "IN", "INDEX", "INNER", "INSERT", "INTERSECT", "INTO", "IS", "JOIN", "KEY",
        "KILL", "LEFT", "LIKE", "MERGE", "NATIONAL", "NOCHECK", "NONCLUSTERED", "NOT", "NULL", "NULLIF", "OF",
        "OFF", "OFFSETS", "ON", "OPEN", "OPENQUERY", "OPENROWSET", "OPENXML", "OPTION", "OR", "ORDER",
        "OUTER", "OVER", "PERCENT", "PIVOT", "PLAN", "PRIMARY", "PRINT", "PROC", "PROCEDURE", "PUBLIC",
        "RAISERROR", "READ", "RECONFIGURE", "REFERENCES", "REPLICATION", "RESTORE", "RETURN", "REVERT",
        "REVOKE", "RIGHT", "ROLLBACK", "ROWCOUNT", "ROWGUIDCOL", "RULE", "SAVE", "SCHEMA", "SELECT",
        "SESSION_USER", "SET", "SETUSER", "SHUTDOWN", "SOME", "STATISTICS", "SYSTEM_USER", "TABLE",
        "TABLESAMPLE", "TEXTSIZE", "THEN", "TO", "TOP", "TRAN", "TRANSACTION", "TRIGGER", "TRUNCATE",
        "TRY_CONVERT", "TSEQUAL", "UNION", "UNIQUE", "UNPIVOT", "UPDATE", "USE", "USER", "VALUES", "VARYING",
        "VIEW", "WAITFOR", "WHEN", "WHERE", "WHILE", "WITH", "WITHIN",
    }
)  # fmt: skip
# Table hints of SQL Server; the parser refuses some of them by name.
TABLE_HINTS = frozenset(
    {
        "FORCESCAN", "FORCESEEK", "HOLDLOCK", "IGNORE_CONSTRAINTS", "IGNORE_TRIGGERS", "KEEPDEFAULTS",
        "KEEPIDENTITY", "NOEXPAND", "NOLOCK", "NOWAIT", "PAGLOCK", "READCOMMITTED", "READCOMMITTEDLOCK",
        "READPAST", "READUNCOMMITTED", "REPEATABLEREAD", "ROWLOCK", "SERIALIZABLE", "SNAPSHOT", "TABLOCK",
        "TABLOCKX", "UPDLOCK", "XLOCK",
    }
)  # fmt: skip
# First words of query hints that change no result.
QUERY_HINTS = frozenset(
    {
        "CONCAT", "FAST", "FORCE", "HASH", "KEEP", "KEEPFIXED", "LABEL", "LOOP", "MAXDOP", "MAXRECURSION",
        "MAX_GRANT_PERCENT", "MERGE", "MIN_GRANT_PERCENT", "OPTIMIZE", "ORDER", "QUERYTRACEON", "RECOMPILE", "USE",
    }
)  # fmt: skip
# Functions that are called without parentheses.
NO_PARENTHESIS_CALLS = frozenset(
    {
        "CURRENT_TIMESTAMP", "CURRENT_USER", "SESSION_USER", "SYSTEM_USER", "USER",
    }
)  # fmt: skip
COMPARISONS = {"=": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "!<": ">=", "!>": "<="}
COMPOUND_ASSIGNMENTS = frozenset({"+=", "-=", "*=", "/=", "%=", "&=", "|=", "^="})
# After these words an opening parenthesis does not make a call.
BEFORE_PARENTHESIS = RESERVED - {"LEFT", "RIGHT", "COALESCE", "NULLIF", "CONVERT", "TRY_CONVERT", "UPDATE"}
