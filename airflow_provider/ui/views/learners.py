"""The learner tasks of a group."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.state.reports.learners import given_up, learners
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerLine:
    """A task that a worker learns.

    :param learned: its owner meanwhile; empty: it has none
    """

    label: str
    learner: str
    learned: str
    state: str
    percent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnersView:
    """What a group learns.

    :param learns: whether tasks can be learned before they move in the group's protocol
    :param given_up: what could not be made ready, in words
    """

    learns: bool
    lines: tuple[LearnerLine, ...]
    given_up: tuple[str, ...]


def learners_view(jobs: JobsSnapshot, status: StatusSnapshot) -> LearnersView:
    return LearnersView(
        learns=status.group is not None and status.group.learns,
        lines=tuple(
            LearnerLine(
                label=jobs.label(one.task),
                learner=one.learner,
                learned=one.learned or "",
                state=one.state,
                percent=100 if one.ready else one.percent,
            )
            for one in learners(status)
        ),
        given_up=tuple(one.in_words(jobs.label) for one in given_up(status)),
    )
