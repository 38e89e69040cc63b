"""Metadata: names, definitions, principals, rights, and the statements that change them."""

from tsqldev.catalog.access import Access, Login, Principal
from tsqldev.catalog.bootstrap import bootstrap
from tsqldev.catalog.ddl import Ddl
from tsqldev.catalog.lookup import Catalog
from tsqldev.catalog.statement import DdlContext, DdlResult

__all__ = ["Access", "Catalog", "Ddl", "DdlContext", "DdlResult", "Login", "Principal", "bootstrap"]
