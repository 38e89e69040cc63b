-- name: provision
-- Creates the fence of one target database: run there once, by its owner. Batches are separated by GO.
CREATE USER [dpone_fence_owner] WITHOUT LOGIN;
GO
CREATE SCHEMA [dpone_fence] AUTHORIZATION [dpone_fence_owner];
GO
CREATE TABLE [dpone_fence].[fence] (
    [singleton] tinyint NOT NULL,
    [operation_key] varchar(71) COLLATE Latin1_General_100_BIN2 NULL,
    [login_name] nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL,
    CONSTRAINT [PK_fence] PRIMARY KEY CLUSTERED ([singleton]),
    CONSTRAINT [CK_fence_singleton] CHECK ([singleton] = 1)
);
GO
CREATE TABLE [dpone_fence].[markers] (
    [operation_key] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [row_count] bigint NOT NULL,
    [evidence_sha256] varchar(71) COLLATE Latin1_General_100_BIN2 NOT NULL,
    [written_at] datetime2(3) NOT NULL,
    CONSTRAINT [PK_markers] PRIMARY KEY CLUSTERED ([operation_key])
);
GO
INSERT INTO [dpone_fence].[fence] ([singleton], [operation_key], [login_name]) VALUES (1, NULL, NULL);
GO
CREATE PROCEDURE [dpone_fence].[advance] @operation_key varchar(71), @login_name nvarchar(128)
AS
BEGIN
    SET NOCOUNT ON;
    UPDATE [dpone_fence].[fence] SET [operation_key] = @operation_key, [login_name] = @login_name WHERE [singleton] = 1;
    IF @@ROWCOUNT <> 1 THROW 51000, 'DPONE_FENCE_MISSING', 1;
END;
GO
CREATE PROCEDURE [dpone_fence].[hold] @operation_key varchar(71)
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @key varchar(71), @login nvarchar(128);
    IF @@TRANCOUNT = 0 THROW 51000, 'DPONE_FENCE_WITHOUT_TRANSACTION', 1;
    SELECT @key = [operation_key], @login = [login_name]
    FROM [dpone_fence].[fence] WITH (UPDLOCK, HOLDLOCK)
    WHERE [singleton] = 1;
    IF @key IS NULL OR @key <> @operation_key OR @login IS NULL OR @login <> ORIGINAL_LOGIN()
        THROW 51000, 'DPONE_FENCED', 1;
END;
GO
CREATE PROCEDURE [dpone_fence].[mark] @operation_key varchar(71), @row_count bigint, @evidence_sha256 varchar(71)
AS
BEGIN
    SET NOCOUNT ON;
    EXEC [dpone_fence].[hold] @operation_key;
    INSERT INTO [dpone_fence].[markers] ([operation_key], [row_count], [evidence_sha256], [written_at])
    VALUES (@operation_key, @row_count, @evidence_sha256, SYSUTCDATETIME());
END;
GO

-- name: grant_writer
-- What a bounded writer role may do with the fence. {{role}} is the quoted role.
GRANT EXECUTE ON OBJECT::[dpone_fence].[hold] TO {{role}};
GO
GRANT EXECUTE ON OBJECT::[dpone_fence].[mark] TO {{role}};
GO

-- name: advance
-- Hands the fence of {{database}} to an operation, inside the issuer's transaction.
EXEC {{database}}.[dpone_fence].[advance] @operation_key = ?, @login_name = ?;

-- name: hold
-- Takes the fence row and holds it to the end of the target transaction.
EXEC [dpone_fence].[hold] @operation_key = ?;

-- name: mark
-- Records that the operation reached its end; commits with the target transaction.
EXEC [dpone_fence].[mark] @operation_key = ?, @row_count = ?, @evidence_sha256 = ?;

-- name: read_marker
-- The marker of an operation, for an observer without write rights.
SELECT [row_count], [evidence_sha256], CONVERT(varchar(23), [written_at], 126)
FROM {{database}}.[dpone_fence].[markers]
WHERE [operation_key] = ?;
