"""Fixture seeds and source seals. The life of a qualification run in the ledger is closed: nothing here moves one.

postgres_seed   applying the one plan of a seed, as the attempt that may
source_seal     observing a seeded source after its writer is gone, and the seal of what was seen
"""

from airflow_provider_dpone.qualification.postgres_seed import apply_seed
from airflow_provider_dpone.qualification.source_seal import EvidenceStore, SourceSealer

__all__ = ["EvidenceStore", "SourceSealer", "apply_seed"]
