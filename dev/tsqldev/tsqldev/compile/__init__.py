"""T-SQL queries, DML, expressions and conditions to PostgreSQL text, with names bound and types known."""

from tsqldev.compile.compiler import Compiler
from tsqldev.compile.names import CompileCatalog, CompileContext, MetadataFunction, SystemView

__all__ = ["CompileCatalog", "CompileContext", "Compiler", "MetadataFunction", "SystemView"]
