"""The progress of workers that were asked to leave their group, in words. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from airflow_provider.state.reports.groups.group_description import how_it_is, state_in_words
from airflow_provider.state.reports.learners import by_owner, learners
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.slots.scaling import still_there
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import configured
from airflow_provider.values.counted import counted
from airflow_provider.values.model import NO_TASKS, WorkerId

_MOST_NAMED: Final = 5
"""How many workers are named, and how many learned tasks of each."""


def departure_in_words(asked: Collection[WorkerId], jobs: JobsSnapshot, status: StatusSnapshot) -> str:
    """Describe it as in "3 of 5 have left; w1 (stable, leaves soon): 2 tasks, w3 learns ingest:3 of w1 (warming, 42 %);
    w2 …".

    :param jobs: read beyond the requests to leave
    """
    there = sorted(still_there(asked, jobs, status))
    if not there:
        return f"all {len(asked)} have left" if len(asked) > 1 else "it has left"
    named = "; ".join(_one(worker, jobs, status) for worker in there[:_MOST_NAMED])
    more = f"; and {len(there) - _MOST_NAMED} more" if len(there) > _MOST_NAMED else ""
    return f"{len(asked) - len(there)} of {len(asked)} have left; {named}{more}"


def _one(worker: WorkerId, jobs: JobsSnapshot, status: StatusSnapshot) -> str:
    said = status.workers.get(worker)
    owned = status.group.owned_by(worker) & configured(jobs, status.tasks) if status.group else NO_TASKS
    learned = by_owner(learners(status)).get(worker, ())
    words = [counted(len(owned), "task")]
    words += (one.in_words(jobs.label) for one in learned[:_MOST_NAMED])
    if len(learned) > _MOST_NAMED:
        ready = sum(one.ready for one in learned)
        words.append(f"and {len(learned) - _MOST_NAMED} more are learned; of all {len(learned)}, {ready} are ready")
    return f"{worker} ({state_in_words(how_it_is(said)) if said else 'no record'}): {', '.join(words)}"
