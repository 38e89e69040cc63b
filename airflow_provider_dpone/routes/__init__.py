"""What an attempt does, one module an execution cell. Import the route's module; this package loads none of them."""

from airflow_provider_dpone.routes.interface import (
    AttemptContext,
    EvidenceJournal,
    Observation,
    Outcome,
    Route,
    RouteReport,
)

__all__ = ["AttemptContext", "EvidenceJournal", "Observation", "Outcome", "Route", "RouteReport"]
