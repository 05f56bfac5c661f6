"""What a worker's process does with the tasks that it was given, as a state machine without I/O: events in, commands
out.

Slots, attempts, retries, stops and the records that say so are decided in this package. :func:`handle` takes what is
known and an event, and gives the commands to carry out. It reads no clock, starts no thread and writes nothing; who
drives it (``hands/executor.py``, or a simulation) does, and feeds the results back as events.

Theory of operation
===================

Tasks come from the membership, and are its until they are released, in one of two ways. *Stopped*: nothing of it runs
here, and it is still to be run. *Finished*: it has come to its end, and the status topic says so. What comes to an end
while it is being revoked has come to its end.

Turns. A task waits until a slot is free, or as many as it wants, those of the job submitted first first; what comes
after it does not pass it. A planner is short and others wait for it: it takes no slot. What waits may have to wait for
something else, too: for the delay before its next attempt; for the checkpoint that another task still has
(``claims.py``); for Spark, which has just ended, and for its trial, when Spark has ended under it before
(``spark_restarts.py``). A task that has ended elsewhere meanwhile is not started.

An attempt is handed to a runner, and is over with its last event, however late that comes. Until then it has its slot,
and there is no second one. A failed attempt is followed by another, as often as the job says. An attempt that takes
longer than the job allows has failed, and is told to stop. If Spark ends under an attempt, the attempt has not failed.

Stops. To *stop* an attempt ends its work. To *stop watching* it lets go of its handle: the work goes on without this
process. A revoked task is stopped, or, where it has a handle, let go of; what is no longer configured is stopped in
any case. What is configured otherwise, or is given back while it stops, restarts: it waits for its turn when it has
stopped. So does what people want to start anew: an attempt restarts that began when their word had not been read, so
that each word is followed once. What is paused stops likewise, and stays here: its turn comes when the pause has ended.

Records. Each step of a task is written. That it waits for its first start is no step: the group's record says who has
it, and thousands may wait. A task that came to its end is released after its last record is stored, so that the next
leader never takes it for lost; that record is of the epoch in which the task is released. A task that was stopped is
released without waiting, because somebody may be waiting for it. If the membership waits for a task whose last record
can't be written, the record is given up after a while, and the task runs again elsewhere.

What has failed for good is not released. It keeps its place, and takes no slot: so somebody may have it tried again
here, and no round is needed for that. It goes when it is revoked, or is no longer configured; and nothing keeps a place
in a worker that is to leave.

A planner's result is the plan. It is published before the planner is closed; or, where the job is planned again and
again, before the planner waits for its next time.

Learner tasks are made ready to run while another worker has them. What is done about those stands in a table of its own
(``learning.py``), for a task may be in both: it has moved here, waits for a slot, and is still being made ready.

The table has a row for each state of a task, and one for a task that is not here. What events mean for all tasks at
once stands below it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from airflow_provider.execution import assigned, attempts, declared_gone, learning, orphans
from airflow_provider.execution.commands import Command
from airflow_provider.execution.events import (
    AttemptBegan,
    AttemptEvent,
    AttemptFailed,
    AttemptFinished,
    AttemptProgressed,
    AttemptStopped,
    Closed,
    Drained,
    EndRefused,
    EndWritten,
    EpochAdvanced,
    Event,
    FailedLetGo,
    GroupJoined,
    HandleWritten,
    PlanRefused,
    PlanWritten,
    QueryAdopted,
    QueryCleared,
    QueryUnreachable,
    SlotFree,
    SparkAbsent,
    SparkLost,
    StreamBegan,
    TasksGiven,
    TasksRevoked,
    TimerFired,
    TopicsRead,
)
from airflow_provider.execution.rules import Table, all_late, apply, late, to
from airflow_provider.execution.state import Execution
from airflow_provider.ledger.status_view import said_since
from airflow_provider.protocol.model import TaskId
from airflow_provider.runs.runs import RunState

_GONE: Final = None
_WAITING = RunState.WAITING
_PAUSED = RunState.PAUSED
_STARTED = RunState.STARTED
_TAKING_OVER = RunState.TAKING_OVER
_STOPPING = RunState.STOPPING
_LEAVING = RunState.LEAVING
_TIMED_OUT = RunState.TIMED_OUT
_RESTARTING = RunState.RESTARTING
_PUBLISHING = RunState.PUBLISHING
_CLOSING = RunState.CLOSING
_FAILED = RunState.FAILED

_WRITTEN = (PlanWritten, PlanRefused, EndWritten, EndRefused)
_LOOKED = (QueryAdopted, QueryCleared, QueryUnreachable, HandleWritten)
_LAST = (AttemptFinished, AttemptFailed, AttemptStopped, SparkLost, SparkAbsent)
_OF_ATTEMPT = (AttemptBegan, StreamBegan, AttemptProgressed, *_LAST)


TRANSITIONS: Final[Table[RunState]] = {
    _GONE: {
        TasksGiven: to(assigned.on_given, _WAITING, _PAUSED, _TAKING_OVER, _RESTARTING, _FAILED, _GONE),
        TasksRevoked: to(assigned.on_revoked_unknown, _GONE),
        **all_late(_GONE, _OF_ATTEMPT, _WRITTEN, _LOOKED),
    },
    _WAITING: {
        TasksGiven: to(late, _WAITING),
        TasksRevoked: to(assigned.on_revoked_waiting, _GONE),
        EpochAdvanced: to(assigned.on_epoch_waiting, _WAITING),
        TopicsRead: to(assigned.on_topics_waiting, _WAITING, _PAUSED, _TAKING_OVER, _RESTARTING, _FAILED, _GONE),
        SlotFree: to(assigned.on_slot_free, _STARTED, _GONE),
        **all_late(_WAITING, _OF_ATTEMPT, _WRITTEN, _LOOKED),
    },
    _PAUSED: {
        TasksGiven: to(late, _PAUSED),
        TasksRevoked: to(assigned.on_revoked_waiting, _GONE),
        EpochAdvanced: to(assigned.on_epoch_waiting, _PAUSED),
        TopicsRead: to(assigned.on_topics_paused, _PAUSED, _WAITING, _TAKING_OVER, _RESTARTING, _FAILED, _GONE),
        **all_late(_PAUSED, _OF_ATTEMPT, _WRITTEN, _LOOKED),
    },
    _TAKING_OVER: {
        TasksGiven: to(late, _TAKING_OVER),
        TasksRevoked: to(assigned.on_revoked_taking_over, _GONE),
        EpochAdvanced: to(assigned.on_epoch, _TAKING_OVER),
        TopicsRead: to(declared_gone.on_topics_taking_over, _TAKING_OVER, _STOPPING, _RESTARTING, _WAITING),
        QueryAdopted: to(attempts.on_adopted, _STARTED),
        QueryCleared: to(attempts.on_cleared, _WAITING),
        QueryUnreachable: to(attempts.on_unreachable, _TAKING_OVER),
        **all_late(_TAKING_OVER, _OF_ATTEMPT, _WRITTEN, (HandleWritten,)),
    },
    _STARTED: {
        TasksGiven: to(late, _STARTED),
        TasksRevoked: to(assigned.on_revoked, _STOPPING, _LEAVING, _GONE),
        EpochAdvanced: to(assigned.on_epoch, _STARTED),
        TopicsRead: to(declared_gone.on_topics_started, _STARTED, _STOPPING, _RESTARTING, _WAITING),
        TimerFired: to(attempts.on_time_over, _TIMED_OUT),
        AttemptBegan: to(attempts.on_began, _STARTED),
        HandleWritten: to(attempts.on_handle_written, _STARTED, _RESTARTING),
        StreamBegan: to(attempts.on_stream_began, _STARTED),
        AttemptProgressed: to(attempts.on_progressed, _STARTED),
        AttemptFinished: to(attempts.on_finished, _CLOSING, _PUBLISHING, _WAITING),
        AttemptFailed: to(attempts.on_failed, _WAITING, _CLOSING),
        AttemptStopped: to(attempts.on_stopped, _GONE),
        SparkLost: to(attempts.on_spark_lost, _WAITING, _CLOSING),
        SparkAbsent: to(attempts.on_spark_absent, _WAITING),
        QueryCleared: to(attempts.on_cleared, _WAITING),
        **all_late(_STARTED, _WRITTEN, (QueryAdopted, QueryUnreachable)),
    },
    _LEAVING: {
        TasksGiven: to(late, _LEAVING),
        TasksRevoked: to(late, _LEAVING),
        EpochAdvanced: to(assigned.on_epoch, _LEAVING),
        TopicsRead: to(assigned.on_topics_leaving, _LEAVING, _STOPPING, _GONE),
        TimerFired: to(assigned.on_nobody_said_who_stays, _GONE),
        AttemptProgressed: to(late, _LEAVING),
        AttemptFinished: to(attempts.on_finished, _CLOSING),
        AttemptFailed: to(attempts.on_stopped, _GONE),
        AttemptStopped: to(attempts.on_stopped, _GONE),
        SparkLost: to(attempts.on_stopped, _GONE),
        SparkAbsent: to(attempts.on_stopped, _GONE),
        QueryCleared: to(attempts.on_stopped, _GONE),
        **all_late(_LEAVING, (AttemptBegan, StreamBegan), _WRITTEN, (QueryAdopted, QueryUnreachable, HandleWritten)),
    },
    _STOPPING: {
        TasksGiven: to(assigned.on_given_back, _RESTARTING),
        TasksRevoked: to(assigned.on_revoked_stopping, _STOPPING, _LEAVING, _GONE),
        EpochAdvanced: to(assigned.on_epoch, _STOPPING),
        TopicsRead: to(declared_gone.on_topics_stopping, _STOPPING, _GONE),
        AttemptBegan: to(attempts.on_began, _STOPPING),
        StreamBegan: to(attempts.on_stream_began_stopping, _STOPPING),
        AttemptProgressed: to(late, _STOPPING),
        AttemptFinished: to(attempts.on_finished, _CLOSING, _PUBLISHING, _GONE),
        AttemptFailed: to(attempts.on_stopped, _GONE),
        AttemptStopped: to(attempts.on_stopped, _GONE),
        SparkLost: to(attempts.on_stopped, _GONE),
        SparkAbsent: to(attempts.on_stopped, _GONE),
        QueryCleared: to(attempts.on_stopped, _GONE),
        QueryUnreachable: to(attempts.on_not_ended, _STOPPING),
        **all_late(_STOPPING, _WRITTEN, (QueryAdopted, HandleWritten)),
    },
    _TIMED_OUT: {
        TasksGiven: to(assigned.on_given_again, _TIMED_OUT),
        TasksRevoked: to(assigned.on_revoked_timed_out, _STOPPING, _TIMED_OUT, _LEAVING, _GONE),
        EpochAdvanced: to(assigned.on_epoch, _TIMED_OUT),
        TopicsRead: to(
            declared_gone.on_topics_timed_out, _TIMED_OUT, _STOPPING, _RESTARTING, _WAITING, _CLOSING, _GONE
        ),
        AttemptBegan: to(attempts.on_began, _TIMED_OUT),
        StreamBegan: to(attempts.on_stream_began_stopping, _TIMED_OUT),
        AttemptProgressed: to(late, _TIMED_OUT),
        AttemptFinished: to(attempts.on_finished, _CLOSING),
        AttemptFailed: to(attempts.on_timed_out, _WAITING, _CLOSING, _GONE),
        AttemptStopped: to(attempts.on_timed_out, _WAITING, _CLOSING, _GONE),
        SparkLost: to(attempts.on_timed_out, _WAITING, _CLOSING, _GONE),
        SparkAbsent: to(attempts.on_timed_out, _WAITING, _CLOSING, _GONE),
        QueryCleared: to(attempts.on_timed_out, _WAITING, _CLOSING, _GONE),
        QueryUnreachable: to(attempts.on_not_ended, _TIMED_OUT),
        **all_late(_TIMED_OUT, _WRITTEN, (QueryAdopted, HandleWritten)),
    },
    _RESTARTING: {
        TasksGiven: to(late, _RESTARTING),
        TasksRevoked: to(assigned.on_revoked_restarting, _STOPPING, _LEAVING, _GONE),
        EpochAdvanced: to(assigned.on_epoch, _RESTARTING),
        TopicsRead: to(
            declared_gone.on_topics_restarting, _WAITING, _PAUSED, _TAKING_OVER, _RESTARTING, _FAILED, _GONE
        ),
        AttemptBegan: to(attempts.on_began, _RESTARTING),
        StreamBegan: to(attempts.on_stream_began_stopping, _RESTARTING),
        AttemptProgressed: to(late, _RESTARTING),
        **{
            last: to(attempts.on_stopped_to_restart, _WAITING, _PAUSED, _TAKING_OVER, _RESTARTING, _FAILED, _GONE)
            for last in (*_LAST, QueryCleared)
        },
        QueryUnreachable: to(attempts.on_unreachable, _RESTARTING),
        **all_late(_RESTARTING, _WRITTEN, (QueryAdopted, HandleWritten)),
    },
    _PUBLISHING: {
        TasksGiven: to(assigned.on_given_again, _PUBLISHING),
        TasksRevoked: to(assigned.on_revoked_publishing, _PUBLISHING, _GONE),
        EpochAdvanced: to(assigned.on_epoch, _PUBLISHING),
        TopicsRead: to(late, _PUBLISHING),
        TimerFired: to(attempts.on_given_up, _GONE),
        PlanWritten: to(attempts.on_plan_written, _CLOSING, _WAITING, _GONE, _PUBLISHING),
        PlanRefused: to(attempts.on_plan_refused, _CLOSING, _PUBLISHING),
        **all_late(_PUBLISHING, _OF_ATTEMPT, (EndWritten, EndRefused), _LOOKED),
    },
    _CLOSING: {
        TasksGiven: to(assigned.on_given_again, _CLOSING),
        TasksRevoked: to(assigned.on_revoked_ended, _CLOSING),
        EpochAdvanced: to(assigned.on_epoch_closing, _CLOSING),
        TopicsRead: to(late, _CLOSING),
        TimerFired: to(attempts.on_given_up, _GONE),
        EndWritten: to(attempts.on_end_written, _GONE, _CLOSING, _FAILED),
        EndRefused: to(attempts.on_end_refused, _CLOSING),
        **all_late(_CLOSING, _OF_ATTEMPT, (PlanWritten, PlanRefused), _LOOKED),
    },
    _FAILED: {
        TasksGiven: to(late, _FAILED),
        TasksRevoked: to(assigned.on_revoked_failed, _GONE),
        FailedLetGo: to(assigned.on_revoked_failed, _GONE),
        EpochAdvanced: to(assigned.on_epoch, _FAILED),
        TopicsRead: to(assigned.on_topics_failed, _FAILED, _WAITING, _PAUSED, _GONE),
        **all_late(_FAILED, _OF_ATTEMPT, _WRITTEN, _LOOKED),
    },
}


def handle(x: Execution, event: Event) -> list[Command]:
    """Take in one event.

    :return: the commands to carry out in their order
    :raises ImpossibleEventError: for an event that cannot happen as things are, which is a fault of this program
    """
    x.begin(event)
    for task in _concerned(x, event):
        _apply(x, task, event)
    learning.follow(x, event)
    _start_next(x)
    learning.begin_next(x)
    return x.commands()


def _concerned(x: Execution, event: Event) -> Iterable[TaskId]:
    """The tasks that an event is about; takes in what it says of the worker as a whole."""
    match event:
        case AttemptEvent():
            return (event.task,)
        case TasksGiven() | TasksRevoked():
            return sorted(event.tasks)
        case TopicsRead():
            return _read(x, event)
        case EpochAdvanced():
            return list(x.runs)
        case TimerFired():
            x.armed_at = None
            if x.look_at_ms is not None and x.look_at_ms <= x.now:
                x.press_claims()
            return x.runs.overdue(now_ms=x.now)
        case GroupJoined():
            x.idle_since_ms = x.now
        case Drained() | FailedLetGo() | Closed():
            return _going(x, event)
    return ()


def _going(x: Execution, event: Drained | FailedLetGo | Closed) -> Iterable[TaskId]:
    """The worker is to leave, or this process to end."""
    if isinstance(event, FailedLetGo):
        x.keeps_failed = False
        return sorted(x.runs.failed)
    x.slots = 0  # planners need none
    if isinstance(event, Closed):
        x.closed = True
        x.forget_what_goes_on()
    return ()


def _read(x: Execution, event: TopicsRead) -> Iterable[TaskId]:
    """What is to run is compared when the jobs topic has changed only: there may be thousands of tasks. Otherwise of
    those only of which something else is said, and that have failed, for they may be tried again, or run without a
    process, for they may certainly be gone.
    """
    changed, before = event.jobs is not x.jobs, x.status
    x.jobs, x.status = event.jobs, event.status
    if changed or x.status.group is not before.group:
        orphans.end_orphans(x)
    if not changed:
        looking, told = x.runs.looking, x.runs.failed | x.runs.detached
        return sorted(looking | said_since(before, x.status, told)) if told or looking else ()
    x.forget_removed_jobs()
    return list(x.runs)


def _apply(x: Execution, task: TaskId, event: Event) -> None:
    apply(TRANSITIONS, x.state_of, x, task, event)


def _start_next(x: Execution) -> None:
    """As many as there are slots. What has ended elsewhere makes room for others."""
    if not x.may_start:
        return
    turn, ended = SlotFree(now_ms=x.now, wall_ms=x.wall), False
    x.blocked = x.restarts.blocked(x.runs, x.look_at_claims(), now_ms=x.now, wall_ms=x.wall)
    for task in x.runs.startable(slots=x.slots, now_ms=x.now, blocked=x.blocked):
        _apply(x, task, turn)
        learning.adopt(x, task)
        ended = ended or task not in x.runs
    if ended:
        _start_next(x)
    elif x.runs.held_back is not None and not x.runs[x.runs.held_back].wait_written:
        x.say_that_it_waits(x.runs.held_back)  # or a leader that sees a slot free thinks that it is about to start
