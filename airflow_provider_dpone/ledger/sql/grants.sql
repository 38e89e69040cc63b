-- What each standing account may do in the ledger and on its instance (docs/roles.md). Server rights are given in master.

-- name: standing_user
-- The user of a standing login in the control database.
CREATE USER {{user}} FOR LOGIN {{user}};

-- name: grant_controller
-- To read and to move rows forward, never to delete or to define; receipts that open the door are the installer's alone.
GRANT SELECT, INSERT, UPDATE, VIEW DEFINITION ON SCHEMA::{{control}} TO {{user}};
GRANT SELECT, INSERT, VIEW DEFINITION ON SCHEMA::{{extension}} TO {{user}};
DENY INSERT ON OBJECT::{{extension}}.[gate_receipts] TO {{user}};

-- name: deny_gates
-- Who admits and finalizes neither issues nor closes, although the schema's rights would let it write these rows.
DENY UPDATE ON OBJECT::{{control}}.[composition_login_gates] TO {{user}};
DENY INSERT, UPDATE ON OBJECT::{{control}}.[composition_mssql_gate_evidence] TO {{user}};

-- name: grant_reading
-- What the audit of every transaction reads, and what a gate asks the ledger.
GRANT SELECT, VIEW DEFINITION ON SCHEMA::{{control}} TO {{user}};
GRANT VIEW DEFINITION ON SCHEMA::{{extension}} TO {{user}};
GRANT SELECT ON OBJECT::{{extension}}.[incarnation] TO {{user}};

-- name: grant_gate_row
-- To move a login gate, which the gate's trigger lets go forward only.
GRANT UPDATE ON OBJECT::{{control}}.[composition_login_gates] TO {{user}};

-- name: grant_gate_evidence
-- To record what was observed of a login. Without it nobody can say that a gate is closed.
GRANT INSERT ON OBJECT::{{control}}.[composition_mssql_gate_evidence] TO {{user}};

-- name: master
-- Where server rights are given.
USE [master];

-- name: grant_definitions
-- To see which database the ledger is in, the LOGON trigger, and who has which right.
GRANT VIEW ANY DEFINITION TO {{user}};

-- name: grant_logins
-- To create an attempt's login, or to disable it.
GRANT ALTER ANY LOGIN TO {{user}};

-- name: grant_closing
-- To end sessions, and to see those of others. SQL Server 2022 has a narrower name for the second.
GRANT ALTER ANY CONNECTION TO {{user}};
IF CONVERT(int, SERVERPROPERTY('ProductMajorVersion')) >= 16
    EXEC (N'GRANT VIEW SERVER PERFORMANCE STATE TO {{user_in_text}};');
ELSE
    GRANT VIEW SERVER STATE TO {{user}};

-- name: protect_login
-- ALTER ANY LOGIN would also change the passwords of the other standing accounts.
DENY ALTER ON LOGIN::{{login}} TO {{user}};
