"""DAGs from the activation in force: one a constituent, as `composition.yaml` says how they run.

    # a file in the DAGs folder
    from airflow_provider_dpone.dags import load_compositions

    load_compositions(globals(), "/srv/dpone")

Only local files are read, and every byte of the release is verified. Nothing runs by itself unless the composition gives
a schedule; the order between constituents is its author's, in `parent`. A composition that cannot be read, or a
constituent that makes no DAG, becomes a DAG whose one task says why, and leaves the others alone.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import defaultdict
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Asset, BaseOperator, chain, get_parsing_context
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_dpone.composition import projection
from airflow_provider_dpone.composition.manifest import Composition, DagOptions, ParentDag
from airflow_provider_dpone.composition.release import Release, ReleasedWorkload
from airflow_provider_dpone.contracts.errors import ConfigurationError, GuardError
from airflow_provider_dpone.hooks.roles import GuardRoles
from airflow_provider_dpone.operators.guarded import GuardedDbtRun, GuardedOperator, MsSqlToClickHouse, PostgresToMsSql
from airflow_provider_dpone.task_groups.guarded_attempt import guarded_attempt

_OPERATORS: dict[str, type[GuardedOperator]] = {
    each.cell: each for each in (GuardedDbtRun, MsSqlToClickHouse, PostgresToMsSql)
}
#: What making a DAG raises for what its author wrote.
_NO_DAG = (GuardError, AirflowException, ValueError, TypeError)
#: The longest id that is made up here; Airflow takes 250 characters.
_ID_LIMIT = 240
_NO_DAG_ID = re.compile(r"[^A-Za-z0-9_.\-]")


def load_compositions(
    namespace: MutableMapping[str, Any], path: str | Path, *, roles: GuardRoles | None = None, **dag: Any
) -> tuple[str, ...]:
    """Put the DAGs of every composition into `namespace` (a DAG file's `globals()`); their ids.

    :param path: a release root, or a folder of release roots.
    :param roles: which connections serve which roles.
    :param dag: further arguments of each DAG; its schedule is the composition's.
    """
    made: dict[str, DAG] = {}
    # A task that starts has the file parsed for its own DAG only.
    wanted = get_parsing_context().dag_id or None
    for root in _roots(Path(path)):
        for each in _composition(root, roles, dag, wanted):
            if each.dag_id in made:
                digest = hashlib.sha256(str(root).encode("utf-8", "surrogateescape")).hexdigest()[:8]
                each = _refused(
                    f"{each.dag_id}__in__{_id(root)}__{digest}", f"{root}: the DAG {each.dag_id} is there already."
                )
            made[each.dag_id] = each
    namespace.update({f"dpone_{number}_{dag_id}": each for number, (dag_id, each) in enumerate(made.items())})
    return tuple(made)


def _roots(path: Path) -> list[Path]:
    if _is_root(path):
        return [path]
    try:
        return [each for each in sorted(path.iterdir()) if _is_root(each)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_root(folder: Path) -> bool:
    """Whether something was put in force there. One that cannot be looked into is one, and is refused with the reason."""
    try:
        os.lstat(folder / projection.CURRENT)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _composition(root: Path, roles: GuardRoles | None, dag: dict[str, Any], wanted: str | None) -> Iterator[DAG]:
    try:
        if not str(root).isprintable():
            raise ConfigurationError("release_root", happened=f"{str(root)!r}: its tasks could not be told this name.")
        release = projection.load_release(root)
    except GuardError as err:
        yield _refused(f"{_id(root)}__refused", str(err))
        return
    by_dag: dict[str, list[ReleasedWorkload]] = defaultdict(list)
    # In the author's order, which is that of the files in composition.yaml.
    for workload in release.listed:
        by_dag[workload.manifest.dag_id].append(workload)
    for dag_id, workloads in by_dag.items():
        if wanted not in (None, dag_id):
            continue
        try:
            yield _constituent(root, release, dag_id, workloads, roles, dag)
        except _NO_DAG as err:
            yield _refused(dag_id, f"{type(err).__name__}: {err}")
    parent = release.composition.parent
    if parent is not None and wanted in (None, parent.dag_id):
        try:
            yield _parent(release.composition, parent, roles, dag)
        except _NO_DAG as err:
            yield _refused(parent.dag_id, f"{type(err).__name__}: {err}")


def _constituent(
    root: Path,
    release: Release,
    dag_id: str,
    workloads: list[ReleasedWorkload],
    roles: GuardRoles | None,
    dag: dict[str, Any],
) -> DAG:
    options = release.composition.dags.get(dag_id, DagOptions())
    _require_schedule(options.schedule)
    usual = {
        "catchup": False,
        "max_active_runs": 1,
        "tags": ["dpone", release.composition.name],
        "doc_md": f"Constituent of `{release.composition.name}`, release `{release.release_id}`.",
    }
    with DAG(dag_id, schedule=options.schedule, **{**usual, **dag}) as made:
        steps = [_workload(root, workload, options, roles) for workload in workloads]
        if options.tasks == "in_order":
            chain(*steps)
    return made


def _require_schedule(schedule: str | None) -> None:
    """Airflow would refuse the whole file, with every other DAG in it, when it serializes this one.

    A day that never comes (30 February) is refused, too: its DAG would be there, and never run.
    """
    if schedule is not None and not schedule.startswith("@"):
        from croniter import CroniterBadDateError, croniter

        if not croniter.is_valid(schedule):
            raise ValueError(f"the schedule {schedule!r} is no cron expression")
        try:
            croniter(schedule).get_next()
        except CroniterBadDateError as err:
            raise ValueError(f"the schedule {schedule!r} names a day that never comes") from err


def _workload(root: Path, workload: ReleasedWorkload, options: DagOptions, roles: GuardRoles | None) -> Any:
    common: dict[str, Any] = {
        "workload_id": workload.workload_id,
        "release_root": str(root),
        "roles": roles,
        "overlap": "defer",
        "retries": options.retries,
    }
    operator, outlets = _OPERATORS[workload.manifest.cell], [Asset(uri) for uri in workload.outlets]
    if options.steps == "one_task":
        return operator(task_id=workload.workload_id, outlets=outlets, **common)
    # A dot in a group's id would look like a group of a group.
    group = guarded_attempt(workload.workload_id.replace(".", "_"), operator=operator, **common)
    finalize = group.children[f"{group.group_id}.finalize"]
    assert isinstance(finalize, BaseOperator)
    finalize.outlets = outlets
    return group


def _parent(composition: Composition, parent: ParentDag, roles: GuardRoles | None, dag: dict[str, Any]) -> DAG:
    from airflow_provider_dpone.dags import parent_dag

    further = {"tags": ["dpone", composition.name], **dag}
    return parent_dag(parent.dag_id, parent.order, roles=roles, **further)


class Refused(BaseOperator):
    """Fails with the reason for which there is no DAG in this one's place."""

    def __init__(self, *, reason: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.reason = reason

    def execute(self, context: Any) -> None:
        raise AirflowFailException(self.reason)


def _refused(dag_id: str, reason: str) -> DAG:
    # Airflow's database holds no NUL and no half of a character, and one text of them would keep the whole file out.
    reason = "".join(each if each.isprintable() or each == "\n" else ascii(each)[1:-1] for each in reason)
    if len(dag_id) > _ID_LIMIT:
        digest = hashlib.sha256(dag_id.encode()).hexdigest()[:8]
        dag_id = f"{dag_id[: _ID_LIMIT - 10]}__{digest}"
    with DAG(dag_id, schedule=None, catchup=False, tags=["dpone", "refused"], doc_md=f"```\n{reason}\n```") as made:
        Refused(task_id="refused", reason=reason)
    return made


def _id(root: Path) -> str:
    return _NO_DAG_ID.sub("_", root.resolve().name) or "composition"
