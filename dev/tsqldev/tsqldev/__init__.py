"""An emulation of a SQL Server endpoint: TDS 7.4 on the outside, PostgreSQL 18 inside.

For development, tests and demonstrations on one machine. It says what it is (`@@VERSION` and
`SERVERPROPERTY('Edition')` contain "emulation") and is never evidence about SQL Server.
"""
