"""The rules that hold after each event of the machine."""

from __future__ import annotations

from airflow_provider.worker.tasks.runs.learners import LearnerState
from airflow_provider.worker.tasks.runs.run_state import RunState
from airflow_provider.worker.tasks.state import WAITS_ITS_TURN, Execution, ImpossibleEventError


def validate(x: Execution) -> None:
    """Check the rules that must hold after each event.

    :raises ImpossibleEventError: naming the broken rule
    """
    x.runs.validate()
    runs = x.runs.values()
    started = [run for run in runs if run.state is RunState.STARTED]
    learners = x.learners.tasks.values()
    broken = {
        "tasks started here take no more slots than there are": sum(run.taken_slots for run in runs if run.began_here)
        <= x.settings.slots,
        "nothing is started in a triggerer": not x.settings.in_triggerer or all(run.detached for run in started),
        "a detached task has a handle": all(run.handle is not None for run in runs if run.detached),
        "only a detached task is leaving": all(run.detached for run in runs if run.state is RunState.LEAVING),
        "a planner takes no slot": not any(run.taken_slots for run in runs if run.task.is_planner),
        "a running task has slots": all(run.taken_slots or run.task.is_planner for run in runs if run.state.runs),
        "a task that must not start yet does not run": not any(run.task in x.blocked for run in started),
        "a waiting task has not begun": not any(
            run.began_ms or run.started_at_ms or run.handle for run in runs if run.state is RunState.WAITING
        ),
        "no waiting task is revoked": not any(run.revoked for run in runs if run.state is RunState.WAITING),
        "no restarting task is revoked": not any(run.revoked for run in runs if run.state is RunState.RESTARTING),
        "an exceeded time limit counts as a failure": all(
            run.failures and run.error for run in runs if run.state is RunState.TIMED_OUT
        ),
        "only a planner publishes a plan": all(
            (run.plan is not None) is (run.state is RunState.PUBLISHING) and (run.plan is None or run.task.is_planner)
            for run in runs
        ),
        "exactly the closing tasks have an end": all(
            (run.end is not None) is (run.state is RunState.CLOSING) for run in runs
        ),
        "the wait for the last record of a revoked task has a limit": all(
            run.give_up_ms is not None
            for run in runs
            if run.revoked and run.state in (RunState.CLOSING, RunState.PUBLISHING)
        ),
        "failed tasks stay here only while they may": x.keeps_failed or not x.runs.failed,
        "released tasks are not here": not any(task in x.runs for task in x.released),
        "tasks with a warm-up are configured": all(
            learner.work is not None for learner in learners if learner.state.with_runner
        ),
        "exactly the ready warm-ups have a progress of 1": all(
            (learner.progress == 1.0) is (learner.state is LearnerState.READY) for learner in learners
        ),
        "a learner task that has moved here waits for its turn": all(
            learner.state.with_runner and x.state_of(learner.task) in WAITS_ITS_TURN
            for learner in learners
            if learner.taken
        ),
        "no planner is learned": not any(learner.task.is_planner for learner in learners),
        "a closed worker learns nothing": not (x.closed and learners),
        "the timer is armed for the next due time": (due := x.next_due_ms()) is None
        or (x.armed_at is not None and x.armed_at <= due),
    }
    for rule, holds in broken.items():
        if not holds:
            raise ImpossibleEventError(f"{rule}: {list(runs)}, {list(learners)}")
