"""An independent witness of the demo: it imports nothing of the provider and uses other drivers where there are any.

SQL Server is read through FreeTDS (pymssql), PostgreSQL through psycopg, ClickHouse through plain HTTP.
"""
