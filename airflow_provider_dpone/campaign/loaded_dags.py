"""Waiting until Airflow would run the DAGs of one release, and not those that it had before.

The DAG processor parses a file when its turn comes, and until then a trigger would run the tasks of the release before.
`load_compositions` writes the release into the documentation of each DAG; Airflow answers it for the version that a run
would get. So it is asked for its documentation, and to parse the files sooner.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from airflow_provider_dpone.campaign.airflow_api import AirflowApi
from airflow_provider_dpone.composition import projection
from airflow_provider_dpone.contracts.errors import ConfigurationError, ControlUnavailable

#: What the DAGs of this provider are tagged with, and those that say why there is none in their place.
TAG, REFUSED = "dpone", "refused"
_ASK_AGAIN = 5.0


def wait_for_dags(
    airflow: AirflowApi,
    dags: Mapping[str, str | None],
    *,
    by_hand: frozenset[str] = frozenset(),
    timeout: float = 180.0,
    say: Callable[[str], None] = lambda line: None,
) -> None:
    """Wait until each DAG is there, of the release that is named for it (None: whatever release).

    A DAG that cannot be made of its release is refused with the reason that stands in its place.

    :param by_hand: DAGs that may be of no release at all.
    """
    deadline, asked, said = time.monotonic() + timeout, -_ASK_AGAIN, False
    waiting, unanswered = dict(dags), ""
    while True:
        try:
            for dag_id, release_id in dags.items():
                if dag_id in waiting and _is_there(airflow, dag_id, release_id, dag_id in by_hand):
                    del waiting[dag_id]
            if not waiting:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(_missing(airflow, waiting, timeout))
            if not said:
                say(f"    Airflow has not parsed {', '.join(waiting)} of this release yet; it was asked to")
                said = True
            if time.monotonic() - asked >= _ASK_AGAIN:
                # Those of the release before may have no tag of ours; a first one has no DAG, and maybe one beside it.
                before = [found for dag_id in waiting if (found := airflow.dag(dag_id)) is not None]
                airflow.parse_soon([*airflow.dags(TAG), *before])
                asked = time.monotonic()
        except ControlUnavailable as err:
            # Nothing was triggered, so asking again does no harm; only the deadline ends it.
            if time.monotonic() > deadline:
                raise
            if err.happened != unanswered:
                say(f"    {err.happened} It is asked again.")
            unanswered = err.happened
        time.sleep(0.5)


def _is_there(airflow: AirflowApi, dag_id: str, release_id: str | None, by_hand: bool) -> bool:
    found = airflow.dag(dag_id)
    if found is None:
        return False
    doc = str(found.get("doc_md") or "")
    of = projection.marked(doc)
    if not (release_id is None or of == release_id or (by_hand and of is None)):
        return False
    if REFUSED in _tags(found):
        raise ConfigurationError(
            "dag_refused",
            happened=f"there is no DAG {dag_id}. In its place stands: {_fenced(doc)}",
            not_done="nothing was triggered.",
            check="what is named here, in the composition or in the release root.",
        )
    return True


def _fenced(doc: str) -> str:
    """The reason, without the rest of the documentation."""
    parts = doc.split("```")
    return (parts[1] if len(parts) > 2 else doc).strip()


def _tags(dag: Mapping[str, object]) -> set[object]:
    tags = dag.get("tags")
    return {each.get("name") for each in tags if isinstance(each, dict)} if isinstance(tags, list) else set()


def _missing(airflow: AirflowApi, waiting: Mapping[str, str | None], timeout: float) -> str:
    there = [dag_id for dag_id in waiting if airflow.dag(dag_id) is not None]
    others = f" Of another release: {', '.join(there)}." if there else ""
    errors = [f"{each.get('filename')}: {each.get('stack_trace')}" for each in airflow.import_errors()]
    return (
        f"Airflow has not parsed {', '.join(waiting)} of this release within {timeout:.0f} s.{others} Nothing was"
        f" triggered. Import errors: {'; '.join(errors) or 'none'}. DAGs with the tag {REFUSED!r} say what they lack."
    )
