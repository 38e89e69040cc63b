"""DAGs from the activation in force: one a constituent, as `composition.yaml` says how they run.

    # a file in the DAGs folder
    from airflow_provider_dpone.dags import load_compositions

    load_compositions(globals())

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
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Asset, BaseOperator, chain, get_parsing_context
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_dpone.composition import projection
from airflow_provider_dpone.composition.manifest import DagOptions, ParentDag
from airflow_provider_dpone.composition.release import Release, ReleasedWorkload
from airflow_provider_dpone.contracts.errors import ConfigurationError, GuardError
from airflow_provider_dpone.hooks.roles import GuardRoles, release_root
from airflow_provider_dpone.operators.guarded import GuardedDbtRun, GuardedOperator, MsSqlToClickHouse, PostgresToMsSql
from airflow_provider_dpone.standing_dags import parent_dag
from airflow_provider_dpone.task_groups.guarded_attempt import guarded_attempt

_OPERATORS: dict[str, type[GuardedOperator]] = {
    each.cell: each for each in (GuardedDbtRun, MsSqlToClickHouse, PostgresToMsSql)
}
#: What making a DAG raises for what its author wrote.
_NO_DAG = (GuardError, AirflowException, ValueError, TypeError)
#: The longest id that is made up here; Airflow takes 250 characters.
_ID_LIMIT = 240
#: What stands in the id of a DAG whose own id another root has already.
_SECOND = "__in__"
_NO_DAG_ID = re.compile(r"[^A-Za-z0-9_.\-]")


def load_compositions(
    namespace: MutableMapping[str, Any],
    path: str | Path | None = None,
    *,
    roles: GuardRoles | None = None,
    **dag: Any,
) -> tuple[str, ...]:
    """Put the DAGs of every composition into `namespace` (a DAG file's `globals()`); their ids.

    :param path: a release root, or a folder of release roots; default is the setting ``[dpone] release_root``.
    :param roles: which connections serve which roles.
    :param dag: further arguments of each DAG; its schedule is the composition's.
    """
    # A task that starts has the file parsed for its own DAG only.
    wanted = get_parsing_context().dag_id or None
    made = _made(path, roles, dag, wanted)
    if wanted is not None and _SECOND in wanted and wanted not in made:
        # Which one is refused for its name is known only when all are made.
        made = _made(path, roles, dag, None)
    namespace.update({f"dpone_{number}_{dag_id}": each for number, (dag_id, each) in enumerate(made.items())})
    return tuple(made)


def _made(path: str | Path | None, roles: GuardRoles | None, dag: dict[str, Any], wanted: str | None) -> dict[str, DAG]:
    made: dict[str, DAG] = {}
    try:
        roots = _roots(release_root(None if path is None else str(path)))
    except GuardError as err:
        return {"dpone__refused": _refused("dpone__refused", str(err))}
    for root in roots:
        for each in _composition(root, roles, dag, wanted):
            if each.dag_id in made:
                digest = hashlib.sha256(str(root).encode("utf-8", "surrogateescape")).hexdigest()[:8]
                each = _refused(
                    f"{each.dag_id}{_SECOND}{_id(root)}__{digest}", f"{root}: the DAG {each.dag_id} is there already."
                )
            made[each.dag_id] = each
    return made


def _roots(path: Path) -> list[Path]:
    """The roots at a path; none at one that is not there yet."""
    if not path.is_absolute():
        raise _no_root(path, "it is no absolute path, and every process of Airflow would look elsewhere")
    if _is_root(path):
        return [path]
    try:
        return [each for each in sorted(path.iterdir()) if _is_root(each)]
    except FileNotFoundError:
        return []
    except OSError as err:
        raise _no_root(path, str(err.strerror)) from err


def _no_root(path: Path, reason: str) -> ConfigurationError:
    return ConfigurationError(
        "release_root",
        happened=f"no DAG is made of {str(path)!r}: {reason}.",
        check="the setting [dpone] release_root, or the path that load_compositions was given.",
    )


def _is_root(folder: Path) -> bool:
    """Whether something was put in force there. One that cannot be looked into is one, and is refused with the reason."""
    try:
        os.lstat(folder / projection.CURRENT)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError):
        # A name with a NUL is a ValueError.
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
            yield _refused(dag_id, f"{type(err).__name__}: {err}", release)
    parent = release.composition.parent
    if parent is not None and wanted in (None, parent.dag_id):
        try:
            yield _parent(root, release, parent, roles, dag)
        except _NO_DAG as err:
            yield _refused(parent.dag_id, f"{type(err).__name__}: {err}", release)


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
    }
    with DAG(dag_id, schedule=options.schedule, **{**usual, **_marked(dag, release)}) as made:
        if options.mapped is not None:
            _mapped(root, workloads, options.mapped, options, roles)
            return made
        steps = [_workload(root, workload, options, roles) for workload in workloads]
        if options.tasks == "in_order":
            chain(*steps)
    return made


def _marked(dag: dict[str, Any], release: Release) -> dict[str, Any]:
    """The further arguments of a DAG, whose documentation says which release it is from: a campaign looks for that."""
    mark = projection.mark(release.composition.name, release.release_id)
    return {**dag, "doc_md": "\n\n".join(filter(None, (dag.get("doc_md"), mark)))}


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


def _mapped(
    root: Path, workloads: list[ReleasedWorkload], task_id: str, options: DagOptions, roles: GuardRoles | None
) -> None:
    """One task, mapped over workloads of one cell. Its outlets would all be updated by each of them: it has none."""
    (operator,) = {_OPERATORS[workload.manifest.cell] for workload in workloads}
    one_at_a_time = {"max_active_tis_per_dagrun": 1} if options.tasks == "in_order" else {}
    task = operator.partial(task_id=task_id, **_common(root, options, roles), **one_at_a_time)
    task.expand(workload_id=[workload.workload_id for workload in workloads])


def _common(root: Path, options: DagOptions, roles: GuardRoles | None) -> dict[str, Any]:
    """What every task that works on a workload is given; what the author left out is Airflow's or the operator's own."""
    common: dict[str, Any] = {
        "release_root": str(root),
        "roles": roles,
        "overlap": "defer",
        "retries": options.retries,
    }
    if options.retry_delay_seconds is not None:
        common["retry_delay"] = timedelta(seconds=options.retry_delay_seconds)
    if options.overlap_poll_seconds is not None:
        common["overlap_poll"] = timedelta(seconds=options.overlap_poll_seconds)
    return common


def _workload(root: Path, workload: ReleasedWorkload, options: DagOptions, roles: GuardRoles | None) -> Any:
    common = _common(root, options, roles) | {"workload_id": workload.workload_id}
    operator, outlets = _OPERATORS[workload.manifest.cell], [Asset(uri) for uri in workload.outlets]
    if options.steps == "one_task":
        return operator(task_id=workload.workload_id, outlets=outlets, **common)
    # A dot in a group's id would look like a group of a group.
    group = guarded_attempt(workload.workload_id.replace(".", "_"), operator=operator, **common)
    finalize = group.children[f"{group.group_id}.finalize"]
    assert isinstance(finalize, BaseOperator)
    finalize.outlets = outlets
    return group


def _parent(root: Path, release: Release, parent: ParentDag, roles: GuardRoles | None, dag: dict[str, Any]) -> DAG:
    further = {"tags": ["dpone", release.composition.name], **_marked(dag, release)}
    return parent_dag(parent.dag_id, parent.order, release_root=str(root), roles=roles, **further)


class Refused(BaseOperator):
    """Fails with the reason for which there is no DAG in this one's place."""

    def __init__(self, *, reason: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.reason = reason

    def execute(self, context: Any) -> None:
        raise AirflowFailException(self.reason)


def _refused(dag_id: str, reason: str, release: Release | None = None) -> DAG:
    # Airflow's database holds no NUL and no half of a character, and one text of them would keep the whole file out.
    reason = "".join(each if each.isprintable() or each == "\n" else ascii(each)[1:-1] for each in reason)
    if len(dag_id) > _ID_LIMIT:
        digest = hashlib.sha256(dag_id.encode()).hexdigest()[:8]
        dag_id = f"{dag_id[: _ID_LIMIT - 10]}__{digest}"
    doc = f"```\n{reason}\n```"
    if release is not None:
        doc += f"\n\n{projection.mark(release.composition.name, release.release_id)}"
    with DAG(dag_id, schedule=None, catchup=False, tags=["dpone", "refused"], doc_md=doc) as made:
        Refused(task_id="refused", reason=reason)
    return made


def _id(root: Path) -> str:
    try:
        name = root.resolve().name
    except (OSError, RuntimeError, ValueError):
        # Links that lead back to themselves, or a name that no folder has.
        name = root.name
    return _NO_DAG_ID.sub("_", name) or "composition"
