"""From a plan to the physical resources of a request: every alias resolved first, then one comparison a domain.

    resolve every alias to its domain -> group all writes by domain -> compare each group at once -> refuse equals

Two aliases of one database are one group, whatever they are called, on whatever host and by whichever account. Nothing
is reserved here: the ledger does that, with the request that this makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from airflow_provider_dpone.composition.execution_plan import CompositionExecutionPlan, PlannedWrite
from airflow_provider_dpone.composition.manifest import Binding
from airflow_provider_dpone.composition.physical import Compared, PhysicalDomain
from airflow_provider_dpone.contracts import canonical
from airflow_provider_dpone.contracts.activation import ActivationRequest, PhysicalResource
from airflow_provider_dpone.contracts.errors import AdmissionRefused

#: What may stand under a name that is written: a table or a view. Writing to a synonym would write somewhere else.
_WRITABLE = (None, "U", "V")
#: The longest name of a SQL Server object, in units of UTF-16: a character outside of the first plane is two.
_NAME_LIMIT = 128
_UNTOUCHED = "nothing was reserved, and no activation in force was touched."

Domains = Mapping[str, PhysicalDomain]


class PhysicalBackend(Protocol):
    """The servers, by the accounts that are configured."""

    @property
    def execution_cells(self) -> frozenset[str]:
        """The cells whose engines and accounts are all there."""

    def require_capabilities(self, plan: CompositionExecutionPlan) -> None:
        """Refuse unless every protected capability that the plan needs is supplied and the door is open."""

    def resolve(self, alias: str, binding: Binding) -> PhysicalDomain:
        """The domain behind an alias, read from its server now."""

    def compare(self, domain: PhysicalDomain, names: tuple[tuple[str, str], ...]) -> tuple[Compared, ...]:
        """One comparison of all names of a domain, by its server, in their order."""


class CompositionPhysicalAdmission:
    """Physical identity and collisions of a complete parent."""

    def __init__(self, *, backend: PhysicalBackend) -> None:
        self._backend = backend

    @property
    def execution_cells(self) -> frozenset[str]:
        return self._backend.execution_cells

    def resolve(self, plan: CompositionExecutionPlan) -> dict[str, PhysicalDomain]:
        """The domain of every alias that a workload reads or writes."""
        used = sorted({alias for workload in plan.sources.workloads for alias in workload.bindings})
        return {alias: self._backend.resolve(alias, plan.sources.binding(alias)) for alias in used}

    def observe(self, plan: CompositionExecutionPlan, domains: Domains) -> tuple[PhysicalResource, ...]:
        """The resources of a request, or the first two writes that are one relation."""
        plan.require_installed_cells(self.execution_cells)
        self._backend.require_capabilities(plan)
        groups = _by_domain(plan, domains)
        return tuple(self._resource(domain, writes) for _, (domain, writes) in sorted(groups.items()))

    def require_stable_bindings(
        self, request: ActivationRequest, plan: CompositionExecutionPlan, domains: Domains
    ) -> None:
        """Refuse unless the aliases still lead where the request was made for. Tables may have changed: they do."""
        plan.require_installed_cells(self.execution_cells)
        self._backend.require_capabilities(plan)
        found = {
            guard: (domain.connector, domain.service_id, tuple(sorted(write.subject_sha256 for write in writes)))
            for guard, (domain, writes) in _by_domain(plan, domains).items()
        }
        asked = {each.guard_id: (each.connector, each.service_id, each.write_subjects) for each in request.resources}
        if found != asked:
            raise AdmissionRefused(
                "physical_binding_drift",
                happened="an alias leads to another database than when the activation was prepared.",
                not_done=_UNTOUCHED,
                check="which database was restored, created again or moved; a new activation takes what is there now.",
            )

    def _resource(self, domain: PhysicalDomain, writes: list[PlannedWrite]) -> PhysicalResource:
        names = tuple((write.relation.schema, write.relation.name) for write in writes)
        compared = self._backend.compare(domain, names)
        _require_distinct(domain, writes, compared)
        subjects = tuple(sorted(write.subject_sha256 for write in writes))
        observation = {
            **domain.observation,
            "slots": sorted(
                [write.subject_sha256, found.equivalence] for write, found in zip(writes, compared, strict=True)
            ),
        }
        return PhysicalResource(
            guard_id=domain.guard_id,
            connector=domain.connector,
            service_id=domain.service_id,
            physical_subject_sha256=domain.physical_subject_sha256,
            observation_sha256=canonical.exact_sha256(observation),
            write_subjects=subjects,
        )


def _by_domain(
    plan: CompositionExecutionPlan, domains: Domains
) -> dict[str, tuple[PhysicalDomain, list[PlannedWrite]]]:
    groups: dict[str, tuple[PhysicalDomain, list[PlannedWrite]]] = {}
    for write in plan.writes:
        domain = domains[write.alias]
        groups.setdefault(domain.guard_id, (domain, []))[1].append(write)
    return groups


def _require_distinct(domain: PhysicalDomain, writes: list[PlannedWrite], compared: tuple[Compared, ...]) -> None:
    first: dict[int, PlannedWrite] = {}
    for write, found in zip(writes, compared, strict=True):
        relation = write.relation
        if max(_units(relation.name), _units(relation.schema)) > _NAME_LIMIT:
            raise AdmissionRefused(
                "name_length",
                happened=f"{write.workload_id} writes {relation.schema}.{relation.name}: a name has at most"
                f" {_NAME_LIMIT} characters.",
                not_done=_UNTOUCHED,
            )
        if found.object_type not in _WRITABLE:
            raise AdmissionRefused(
                "write_object",
                happened=f"{write.workload_id} writes {relation.schema}.{relation.name} of {domain.database}, and what is"
                f" there is no table and no view (type {found.object_type}).",
                not_done=_UNTOUCHED,
                check="whether the object (a synonym leads elsewhere) has to be there under this name.",
            )
        other = first.setdefault(found.equivalence, write)
        if other is not write:
            raise AdmissionRefused(
                "write_collision",
                happened=f"{_named(other)} and {_named(write)} are one relation of {domain.database}.",
                not_done=_UNTOUCHED,
                check="aliases that lead to one database, names that its collation does not tell apart, and the names"
                " that dbt-sqlserver gives to its helpers.",
            )


def _units(name: str) -> int:
    return len(name.encode("utf-16-le", "surrogatepass")) // 2


def _named(write: PlannedWrite) -> str:
    relation = write.relation
    helper = "" if relation.role == "target" else f", a helper of {relation.resource_id}"
    return f"{write.alias}.{relation.schema}.{relation.name} (workload {write.workload_id}{helper})"
