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

-- name: user
-- The user of a standing account that is not the owner.
CREATE USER {{login}} FOR LOGIN {{login}};
GO

-- name: outcome_reader
-- What observing outcomes takes: it sees definitions, rows and markers, and may write nothing.
GRANT VIEW DEFINITION TO {{login}};
GO
GRANT SELECT ON OBJECT::[dpone_fence].[markers] TO {{login}};
GO

-- name: issuer
-- What issuing takes: to create an attempt's user, make it a member of the writer role and hand it the fence.
GRANT ALTER ANY USER TO {{login}};
GO
GRANT ALTER ON ROLE::{{role}} TO {{login}};
GO
GRANT EXECUTE ON OBJECT::[dpone_fence].[advance] TO {{login}};
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
