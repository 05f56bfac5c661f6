"""Detached queries that a person has declared gone (``cospark jobs orphans --forget``). The worker no longer waits for
their server.
"""

from __future__ import annotations

from airflow_provider.values.model import TaskId
from airflow_provider.worker.tasks import assigned, attempts
from airflow_provider.worker.tasks.commands import StopWatching
from airflow_provider.worker.tasks.events import TopicsRead
from airflow_provider.worker.tasks.state import Execution


def on_topics_taking_over(x: Execution, task: TaskId, event: TopicsRead) -> None:
    if _let_go_of_what_is_gone(x, task):
        _begin_anew(x, task)
    else:
        assigned.on_topics(x, task, event)


def on_topics_started(x: Execution, task: TaskId, event: TopicsRead) -> None:
    if _let_go_of_what_is_gone(x, task):
        _begin_anew(x, task)
    else:
        attempts.on_topics_started(x, task, event)


def on_topics_stopping(x: Execution, task: TaskId, event: TopicsRead) -> None:
    if _let_go_of_what_is_gone(x, task):
        attempts.on_stopped(x, task, event)


def on_topics_restarting(x: Execution, task: TaskId, event: TopicsRead) -> None:
    if _let_go_of_what_is_gone(x, task):
        attempts.on_stopped_to_restart(x, task, event)


def on_topics_timed_out(x: Execution, task: TaskId, event: TopicsRead) -> None:
    if _let_go_of_what_is_gone(x, task):
        attempts.on_timed_out(x, task, event)
    else:
        assigned.on_topics(x, task, event)


def _let_go_of_what_is_gone(x: Execution, task: TaskId) -> bool:
    run, last = x.runs[task], x.status.tasks.get(task)
    if not run.detached or last is None or not last.says_gone(run.attempt, run.handle):
        return False
    x.do(StopWatching(tasks=frozenset({task})))
    return True


def _begin_anew(x: Execution, task: TaskId) -> None:
    x.wait_for_next(x.runs[task], 0)
    x.claim_again(task)
