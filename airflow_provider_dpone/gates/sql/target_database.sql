-- name: writer_role
-- The one bounded role of a target database: attempts are its members and nobody else.
CREATE ROLE {{role}} AUTHORIZATION [dbo];
GO
GRANT CREATE TABLE, CREATE VIEW TO {{role}};
GO

-- name: managed_schema
-- A schema that attempts may write. ALTER on it is what creating and dropping tables and views needs.
CREATE SCHEMA {{schema}} AUTHORIZATION [dbo];
GO
GRANT SELECT, INSERT, UPDATE, DELETE, ALTER, REFERENCES ON SCHEMA::{{schema}} TO {{role}};
GO

-- name: outcome_reader
-- The account that observes outcomes: it sees definitions, rows and markers, and may write nothing.
CREATE USER {{login}} FOR LOGIN {{login}};
GO
GRANT VIEW DEFINITION TO {{login}};
GO
GRANT SELECT ON OBJECT::[dpone_fence].[markers] TO {{login}};
GO

-- name: issuer
-- The account that creates an attempt's user, makes it a member of the writer role and hands it the fence.
CREATE USER {{login}} FOR LOGIN {{login}};
GO
GRANT ALTER ANY USER TO {{login}};
GO
GRANT ALTER ON ROLE::{{role}} TO {{login}};
GO
GRANT EXECUTE ON OBJECT::[dpone_fence].[advance] TO {{login}};
GO

-- name: source_reader
-- The account that reads tables to publish them.
CREATE USER {{login}} FOR LOGIN {{login}};
GO

-- name: read_schema
-- Lets a reading account see the rows of one schema.
GRANT SELECT ON SCHEMA::{{schema}} TO {{login}};
GO

-- name: settings
-- What the database policy asks for, and the isolation level that a publishing read uses.
ALTER DATABASE {{database}} SET TRUSTWORTHY OFF;
GO
ALTER DATABASE {{database}} SET DB_CHAINING OFF;
GO
ALTER DATABASE {{database}} SET ALLOW_SNAPSHOT_ISOLATION ON;
GO
ALTER AUTHORIZATION ON DATABASE::{{database}} TO {{controller}};
GO
