"""A small composition without dbt, its servers and its ledger in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from airflow_provider_dpone.composition.activation import CompositionActivation
from airflow_provider_dpone.composition.coordinator import (
    CompositionActivationCoordinator,
    CompositionActivationPreparation,
    SealedInputs,
)
from airflow_provider_dpone.composition.execution_plan import CompositionExecutionPlan
from airflow_provider_dpone.composition.manifest import Binding
from airflow_provider_dpone.composition.physical import Compared, PhysicalDomain
from airflow_provider_dpone.composition.physical_admission import CompositionPhysicalAdmission
from airflow_provider_dpone.contracts.activation import EXECUTION_CELLS, ActivationRequest
from airflow_provider_dpone.contracts.attempt import GuardEpochs
from airflow_provider_dpone.contracts.errors import ActivationUnknown, ControlUnavailable, Overlap, ParentNotActive
from airflow_provider_dpone.ledger import Activation
from tests.support import ledger_records as make

ORDINARY = """
schema: dpone.workload.v1
workload_id: planes
constituent_id: standalone
cell: postgres_mssql_full_refresh_v1
dag_id: d
source: {binding: ops, schema: public, table: planes}
sink: {binding: dw, schema: raw, table: planes, mode: full_refresh, guarantee: target_atomic}
"""
NATIVE = """
schema: dpone.workload.v1
workload_id: delays
constituent_id: native
cell: mssql_clickhouse_full_refresh_v1
dag_id: d
source: {binding: dw, schema: marts, table: delays, max_source_bytes: 1000000}
sink: {binding: ch, table: delays, mode: full_refresh}
"""
COMPOSITION = """
schema: dpone.composition.v1
name: small
environment: test
bindings:
  ops: {connector: postgres, database: ops}
  dw: {connector: mssql, database: dw}
  ch: {connector: clickhouse, database: ch}
workloads: [native.yaml, WORKLOAD]
"""


def write_source(folder: Path, *, composition: str = COMPOSITION, **manifests: str) -> Path:
    """An author's folder; by default one ordinary and one native transfer."""
    folder.mkdir(parents=True)
    (folder / "composition.yaml").write_text(composition.replace("WORKLOAD", "planes.yaml"))
    for name, text in ({"planes": ORDINARY, "native": NATIVE} | manifests).items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


@dataclass
class Servers:
    """Engines by their bindings: `same` names databases that are one, `objects` what stands under a name."""

    cells: frozenset[str] = frozenset(EXECUTION_CELLS)
    same: Mapping[str, str] = field(default_factory=dict)
    objects: Mapping[str, str] = field(default_factory=dict)
    compared: list[tuple[str, int]] = field(default_factory=list)
    incarnation: int = 1

    @property
    def execution_cells(self) -> frozenset[str]:
        return self.cells

    def require_capabilities(self, plan: CompositionExecutionPlan) -> None:
        return None

    def resolve(self, alias: str, binding: Binding) -> PhysicalDomain:
        database = self.same.get(binding.database, binding.database)
        return PhysicalDomain(
            connector=binding.connector,
            database=database,
            service_id=make.SERVICE,
            physical_subject_sha256=make.sha(f"{database} {self.incarnation}"),
            observation={"schema": "test.v1"},
        )

    def compare(self, domain: PhysicalDomain, names: tuple[tuple[str, str], ...]) -> tuple[Compared, ...]:
        """Without case and trailing blanks on SQL Server, by the byte on ClickHouse."""
        self.compared.append((domain.database, len(names)))
        exact = domain.connector == "clickhouse"
        keys = [name if exact else tuple(part.casefold().rstrip(" ") for part in name) for name in names]
        return tuple(
            Compared(equivalence=keys.index(key), object_type=self.objects.get(name))
            for key, (_, name) in zip(keys, names, strict=True)
        )


class Store:
    """A ledger of activations in memory. ``lost`` names the steps whose acknowledgement does not arrive."""

    def __init__(self) -> None:
        self.requests: dict[str, ActivationRequest] = {}
        self.states: dict[str, str] = {}
        self.lost: set[str] = set()
        self.sent = True

    def _answer(self, step: str, request: ActivationRequest, state: str) -> Activation:
        if self.sent or step not in self.lost:
            self.states[request.activation_id] = state
            self.requests[request.activation_id] = request
        if step in self.lost:
            raise ActivationUnknown("activation_commit_unknown") if self.sent else ControlUnavailable("control")
        return self._activation(request)

    def _activation(self, request: ActivationRequest) -> Activation:
        epochs: GuardEpochs = tuple((resource.guard_id, 1) for resource in request.resources)
        return Activation(
            owner_key=request.owner_key,
            activation_id=request.activation_id,
            request=request,
            request_sha256=request.sha256,
            state=self.states[request.activation_id],  # type: ignore[arg-type]  # a state by name
            guard_epochs=epochs,
        )

    def prepare(self, request: ActivationRequest) -> Activation:
        mine = request.activation_id
        if mine not in self.states and any(state != "RETIRED" for state in self.states.values()):
            raise Overlap()
        return self._answer("prepare", request, self.states.get(mine, "PREPARED"))

    def activate(self, request: ActivationRequest) -> Activation:
        if self.states[request.activation_id] not in ("PREPARED", "ACTIVE"):
            raise ParentNotActive("owner_transition")
        return self._answer("activate", request, "ACTIVE")

    def begin_retirement(self, request: ActivationRequest) -> Activation:
        if self.states[request.activation_id] not in ("ACTIVE", "RETIRING"):
            raise ParentNotActive("owner_transition")
        return self._answer("begin_retirement", request, "RETIRING")

    def withdraw(self, request: ActivationRequest) -> Activation:
        if self.states[request.activation_id] not in ("PREPARED", "RETIRING"):
            raise ParentNotActive("owner_transition")
        return self._answer("withdraw", request, "RETIRING")

    def finalize_retirement(self, request: ActivationRequest) -> Activation:
        return self._answer("finalize_retirement", request, "RETIRED")

    def read(self, activation_id: str) -> Activation | None:
        request = self.requests.get(activation_id)
        return None if request is None else self._activation(request)


def activation(
    root: Path,
    store: Store,
    servers: Servers | None = None,
    *,
    stores: Callable[[], Store] | None = None,
    environment: str | None = None,
) -> CompositionActivation:
    """What an operator uses, over a ledger and servers in memory."""
    return CompositionActivation(root, coordinator(store, servers, stores=stores, environment=environment))


def coordinator(
    store: Store,
    servers: Servers | None = None,
    *,
    stores: Callable[[], Store] | None = None,
    environment: str | None = None,
) -> CompositionActivationCoordinator:
    return CompositionActivationCoordinator(
        inputs=SealedInputs(),
        preparation=CompositionActivationPreparation(
            physical=CompositionPhysicalAdmission(backend=servers or Servers())
        ),
        stores=stores or (lambda: store),
        environment=environment,
    )
