"""What a worker does with its tasks, as a state machine without I/O: events in, commands out.

This package decides about slots, attempts, retries, stops and records. :func:`handle` takes the state and an event, and
returns the commands to carry out. It reads no clock, starts no thread and writes nothing. Its caller does
(``worker/hands/executor.py``, or a simulation), and feeds the results back as events.

Theory of operation
===================

Ownership. Tasks come from the membership, and belong to it until they are released, in one of two ways. *Stopped*: the
task no longer runs here, and still has to be run. *Finished*: the task has finished or failed, and the status topic
says so. A task that ends while it is being revoked is finished.

Turns. A task waits until one slot is free, or as many as it wants. Jobs that were submitted first come first, and no
other task overtakes one that waits for several slots. A planner takes no slot, because it is short and others wait for
it. A waiting task may also have to wait for something else: for the delay before its next attempt; for a checkpoint
that another task still has (``checkpoint_claims.py``); for Spark, if it has just ended; and for its trial, if Spark or
its process has ended while it ran (``runs/spark_deaths``). A task that has ended elsewhere meanwhile is not started.
While a task seems to run elsewhere, nothing starts until all that was written before has been read
(``runs/last_words.py``).

Attempts. An attempt is given to a runner, and is over with its last event, however late this comes. Until then it has
its slot, and no second one starts. Its code is called when its start is stored, attached or detached, task or planner:
if it ends this process, others know what was running. While the topic is away, it waits. An attempt that exceeds the
job's time limit has failed, and is told to stop. A stream that does not move for longer than expected is stalled: its
record says so until it moves (``stalls.py``).

Blame. Every end of an attempt has somebody to blame, and only that one pays. Errors are judged where they are caught
(``spark/attempts/blame.py``); the last event says who it is.

- The task (TaskFailed, or its time limit): this uses one of its retries. The pauses before the next attempt grow
  (``retry_pauses.py``). A stream gets its retries back by going well (``stream_health.py``). What has no end is tried
  again as often as it takes, unless its job says how often.
- Another writer of its checkpoint or table, often its predecessor (TaskConflicted): the task waits, and is tried
  again after growing pauses as often as it takes. It has not failed.
- The Spark that has ended (SparkLost), or the process: unknown among all that ran there, see ``runs/spark_deaths``. No
  retry is used.
- Nobody, if it was a known fault of Spark (SparkFaltered): the task is tried again after short pauses. If it meets the
  fault again and again, it is taken for the task's after all. If Spark has had no capacity left to begin, the task is
  tried again as often as it takes: none of its code was called.
- This worker, which has no Spark (SparkAbsent): it starts nothing more here, and leaves the group. No task pays.
- Nobody (TaskStopped): it was told to stop.

Elsewhere. The error of an attempt that has failed can't show that this worker lacks something. So the next attempt is
left to another worker, if there is a better place (``state/blame/``): the task then waits here a while for its move. A
task whose retries are used up where nothing goes well gets one try more elsewhere. If tasks that failed here go well
elsewhere, and nothing goes well here, this worker is to blame: it starts nothing more, and stands back.

Stops. To *stop* an attempt is to end its work. To *stop watching* it is to let go of its handle: the query keeps
running without this process. A revoked task is stopped or, if it is detached, let go of. A task that is no longer
configured is stopped in any case. A task whose work has changed, or that is given back while it stops, restarts: when
it has stopped, it waits for its turn. So does a task that people want to restart, if its attempt had begun before their
request was read; so each request is carried out once. A paused task stops as well, stays here, and starts when the
pause is over. So does what runs beside a task that is to be tried alone, until its trial is over.

Records. Each step of a task is written. Waiting for the first start is not a step: the group's record says who has the
task, and thousands may wait. A finished task is released after its last record is stored, so that the next leader never
takes it for lost. This record is of the epoch in which the task is released. A stopped task is released by the machine
immediately, and by its caller when the record of that is stored, so that its next worker does not take this process for
dead. If the membership waits for a task whose last record can't be written, it does not wait for long: the record is
given up, and the task runs again elsewhere.

Failures. A task that has failed for good is not released. It stays here without a slot, so it can be tried again
without a round. It is released when it is revoked or no longer configured, or when the worker is to leave.

Plans. A planner's result is the plan. It is published before the planner is closed, or before it waits for its next
time.

Learner tasks are warmed up while another worker has them. They have a table of their own (``learning.py``), because a
task may be in both: it has moved here, waits for a slot, and is still warming up.

The table has a row for each state of a task, and one for a task that is not here. The functions below it handle what
events mean for all tasks at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from airflow_provider.spark.runner import (
    AttemptEvent,
    QueryAdopted,
    QueryCleared,
    QueryDetached,
    QueryStarted,
    QueryUnreachable,
    ServersSilent,
    SparkAbsent,
    SparkEnded,
    SparkFaltered,
    SparkLost,
    TaskConflicted,
    TaskFailed,
    TaskFinished,
    TaskProgressed,
    TaskStarted,
    TaskStopped,
)
from airflow_provider.state.records import TaskState
from airflow_provider.state.views.status_view import said_since
from airflow_provider.values.model import NO_TASKS, TaskId
from airflow_provider.worker.tasks import assigned, attempts, declared_gone, learning, orphan_queries, stalls
from airflow_provider.worker.tasks.commands import Command
from airflow_provider.worker.tasks.events import (
    Closed,
    Drained,
    EndRefused,
    EndWritten,
    EpochAdvanced,
    Event,
    FailedLetGo,
    GroupJoined,
    LastWordsRead,
    LeavesForGood,
    PlanRefused,
    PlanWritten,
    RoomWanted,
    SlotFree,
    StartWritten,
    TasksGiven,
    TasksRevoked,
    TimerFired,
    TopicsRead,
    Written,
)
from airflow_provider.worker.tasks.rule_table import Table, all_late, apply, late, to
from airflow_provider.worker.tasks.runs.checkpoint_claims import LOOK_MS
from airflow_provider.worker.tasks.runs.run_state import RunState
from airflow_provider.worker.tasks.runs.spark_deaths.suspects import Turn
from airflow_provider.worker.tasks.state import Execution

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
_LOOKED = (QueryAdopted, QueryCleared, QueryUnreachable, StartWritten)
_ENDS = (TaskFinished, TaskFailed, TaskConflicted, TaskStopped, SparkLost, SparkFaltered, SparkAbsent)
_OF_ATTEMPT = (TaskStarted, QueryStarted, QueryDetached, TaskProgressed, *_ENDS)


TRANSITIONS: Final[Table[RunState]] = {
    _GONE: {
        TasksGiven: to(assigned.on_given, _WAITING, _PAUSED, _TAKING_OVER, _RESTARTING, _CLOSING, _FAILED, _GONE),
        TasksRevoked: to(assigned.on_revoked_unknown, _GONE),
        **all_late(_GONE, _OF_ATTEMPT, _WRITTEN, _LOOKED),
    },
    _WAITING: {
        TasksGiven: to(late, _WAITING),
        TasksRevoked: to(assigned.on_revoked_waiting, _GONE),
        EpochAdvanced: to(assigned.on_epoch_waiting, _WAITING),
        TopicsRead: to(assigned.on_topics_waiting, _WAITING, _PAUSED, _TAKING_OVER, _RESTARTING, _FAILED, _GONE),
        SlotFree: to(assigned.on_slot_free, _STARTED, _GONE),
        LastWordsRead: to(
            assigned.on_last_words, _WAITING, _PAUSED, _TAKING_OVER, _RESTARTING, _CLOSING, _FAILED, _GONE
        ),
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
        **all_late(_TAKING_OVER, _OF_ATTEMPT, _WRITTEN, (StartWritten,)),
    },
    _STARTED: {
        TasksGiven: to(late, _STARTED),
        TasksRevoked: to(assigned.on_revoked, _STOPPING, _LEAVING, _GONE),
        EpochAdvanced: to(assigned.on_epoch, _STARTED),
        TopicsRead: to(declared_gone.on_topics_started, _STARTED, _STOPPING, _RESTARTING, _WAITING),
        RoomWanted: to(assigned.on_room_wanted, _RESTARTING),
        TimerFired: to(stalls.on_timer, _TIMED_OUT, _STARTED),
        TaskStarted: to(attempts.on_began, _STARTED),
        StartWritten: to(attempts.on_start_written, _STARTED, _RESTARTING),
        QueryStarted: to(attempts.on_query_started, _STARTED),
        QueryDetached: to(attempts.on_detached, _STARTED),
        TaskProgressed: to(stalls.on_progressed, _STARTED),
        TaskFinished: to(attempts.on_finished, _CLOSING, _PUBLISHING, _WAITING),
        TaskFailed: to(attempts.on_failed, _WAITING, _CLOSING),
        TaskConflicted: to(attempts.on_conflicted, _WAITING),
        TaskStopped: to(attempts.on_stopped, _GONE),
        SparkLost: to(attempts.on_spark_lost, _WAITING, _CLOSING),
        SparkFaltered: to(attempts.on_spark_faltered, _WAITING, _CLOSING),
        SparkAbsent: to(attempts.on_spark_absent, _WAITING),
        QueryAdopted: to(attempts.on_found, _STARTED),
        QueryCleared: to(attempts.on_not_started, _WAITING, _CLOSING),
        QueryUnreachable: to(attempts.on_unreachable, _STARTED),
        **all_late(_STARTED, _WRITTEN),
    },
    _LEAVING: {
        TasksGiven: to(late, _LEAVING),
        TasksRevoked: to(late, _LEAVING),
        EpochAdvanced: to(assigned.on_epoch, _LEAVING),
        TopicsRead: to(assigned.on_topics_leaving, _LEAVING, _STOPPING, _GONE),
        TimerFired: to(assigned.on_leaving_timed_out, _GONE),
        TaskProgressed: to(late, _LEAVING),
        TaskFinished: to(attempts.on_finished, _CLOSING),
        TaskFailed: to(attempts.on_stopped, _GONE),
        TaskConflicted: to(attempts.on_stopped, _GONE),
        TaskStopped: to(attempts.on_stopped, _GONE),
        SparkLost: to(attempts.on_stopped, _GONE),
        SparkFaltered: to(attempts.on_stopped, _GONE),
        SparkAbsent: to(attempts.on_stopped, _GONE),
        QueryCleared: to(attempts.on_stopped, _GONE),
        **all_late(_LEAVING, (TaskStarted, QueryStarted, QueryDetached), _WRITTEN),
        **all_late(_LEAVING, (QueryAdopted, QueryUnreachable, StartWritten)),
    },
    _STOPPING: {
        TasksGiven: to(assigned.on_given_back, _RESTARTING),
        TasksRevoked: to(assigned.on_revoked_stopping, _STOPPING, _LEAVING, _GONE),
        EpochAdvanced: to(assigned.on_epoch, _STOPPING),
        TopicsRead: to(declared_gone.on_topics_stopping, _STOPPING, _GONE),
        TaskStarted: to(attempts.on_began, _STOPPING),
        QueryStarted: to(attempts.on_query_started, _STOPPING),
        QueryDetached: to(attempts.on_detached_stopping, _STOPPING, _GONE),
        TaskProgressed: to(late, _STOPPING),
        TaskFinished: to(attempts.on_finished, _CLOSING, _PUBLISHING, _GONE),
        TaskFailed: to(attempts.on_stopped, _GONE),
        TaskConflicted: to(attempts.on_stopped, _GONE),
        TaskStopped: to(attempts.on_stopped, _GONE),
        SparkLost: to(attempts.on_stopped, _GONE),
        SparkFaltered: to(attempts.on_stopped, _GONE),
        SparkAbsent: to(attempts.on_stopped, _GONE),
        QueryCleared: to(attempts.on_stopped, _GONE),
        QueryUnreachable: to(attempts.on_not_ended, _STOPPING),
        **all_late(_STOPPING, _WRITTEN, (QueryAdopted, StartWritten)),
    },
    _TIMED_OUT: {
        TasksGiven: to(assigned.on_given_again, _TIMED_OUT),
        TasksRevoked: to(assigned.on_revoked_timed_out, _STOPPING, _TIMED_OUT, _LEAVING, _GONE),
        EpochAdvanced: to(assigned.on_epoch, _TIMED_OUT),
        TopicsRead: to(
            declared_gone.on_topics_timed_out, _TIMED_OUT, _STOPPING, _RESTARTING, _WAITING, _CLOSING, _GONE
        ),
        TaskStarted: to(attempts.on_began, _TIMED_OUT),
        QueryStarted: to(attempts.on_query_started, _TIMED_OUT),
        QueryDetached: to(attempts.on_detached_stopping, _TIMED_OUT),
        TaskProgressed: to(late, _TIMED_OUT),
        TaskFinished: to(attempts.on_finished, _CLOSING),
        TaskFailed: to(attempts.on_timed_out, _WAITING, _CLOSING, _GONE),
        TaskConflicted: to(attempts.on_timed_out, _WAITING, _CLOSING, _GONE),
        TaskStopped: to(attempts.on_timed_out, _WAITING, _CLOSING, _GONE),
        SparkLost: to(attempts.on_timed_out, _WAITING, _CLOSING, _GONE),
        SparkFaltered: to(attempts.on_timed_out, _WAITING, _CLOSING, _GONE),
        SparkAbsent: to(attempts.on_timed_out, _WAITING, _CLOSING, _GONE),
        QueryCleared: to(attempts.on_timed_out, _WAITING, _CLOSING, _GONE),
        QueryUnreachable: to(attempts.on_not_ended, _TIMED_OUT),
        **all_late(_TIMED_OUT, _WRITTEN, (QueryAdopted, StartWritten)),
    },
    _RESTARTING: {
        TasksGiven: to(late, _RESTARTING),
        TasksRevoked: to(assigned.on_revoked_restarting, _STOPPING, _LEAVING, _GONE),
        EpochAdvanced: to(assigned.on_epoch, _RESTARTING),
        TopicsRead: to(
            declared_gone.on_topics_restarting, _WAITING, _PAUSED, _TAKING_OVER, _RESTARTING, _FAILED, _GONE
        ),
        TaskStarted: to(attempts.on_began, _RESTARTING),
        QueryStarted: to(attempts.on_query_started, _RESTARTING),
        QueryDetached: to(attempts.on_detached_stopping, _RESTARTING),
        TaskProgressed: to(late, _RESTARTING),
        **{
            last: to(attempts.on_stopped_to_restart, _WAITING, _PAUSED, _TAKING_OVER, _RESTARTING, _FAILED, _GONE)
            for last in (*_ENDS, QueryCleared)
        },
        QueryUnreachable: to(attempts.on_unreachable, _RESTARTING),
        **all_late(_RESTARTING, _WRITTEN, (QueryAdopted, StartWritten)),
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


def handle(x: Execution, event: Event, *, now_ms: int, wall_ms: int) -> list[Command]:
    """Handle one event.

    :param now_ms: when it came by a clock for measuring (monotonic)
    :param wall_ms: the same by the clock for records (since 1970)
    :return: the commands to carry out, in their order
    :raises ImpossibleEventError: for an event that cannot happen as things are, which is a fault of this program
    """
    x.begin(now_ms=now_ms, wall_ms=wall_ms)
    if isinstance(event, (TopicsRead, TasksGiven)):
        x.judge(event.status if isinstance(event, TopicsRead) else x.status)
    for task in _concerned(x, event):
        apply(TRANSITIONS, x.state_of, x, task, event)
    _look_for_last_words(x)
    _tell_of_suspects(x)
    learning.follow(x, event)
    _start_next(x)
    _tell_of_suspects(x)  # who was tried alone is alone no more if something has begun
    learning.begin_next(x)
    return x.commands()


def _concerned(x: Execution, event: Event) -> Iterable[TaskId]:
    """The tasks that an event is about. Also handles what the event means for the worker as a whole."""
    match event:
        case AttemptEvent() | Written():
            return (event.task,)
        case TasksGiven() if not x.looked_for_orphans:
            orphan_queries.end_orphans(x)
            return sorted(event.tasks)
        case TasksGiven() | TasksRevoked():
            return sorted(event.tasks)
        case TopicsRead():
            return _read(x, event)
        case EpochAdvanced():
            return list(x.runs)
        case TimerFired():
            return _look_at_clock(x)
        case GroupJoined():
            x.idle_since_ms = x.now
        case ServersSilent() | SparkEnded():
            _look_at_spark(x, event)
        case Drained() | FailedLetGo() | LeavesForGood() | Closed():
            return _going(x, event)
    return ()


def _look_for_last_words(x: Execution) -> None:
    until_ms = x.last_words.until_ms
    if until_ms is not None and (x.now >= until_ms or x.last_words.are_read_in(x.status)):
        waiting = x.last_words.tasks
        x.blocked -= waiting  # while nothing may start, this is not looked at again
        for task in sorted(waiting):
            apply(TRANSITIONS, x.state_of, x, task, LastWordsRead())


def _look_at_spark(x: Execution, event: ServersSilent | SparkEnded) -> None:
    if isinstance(event, SparkEnded):
        x.suspects.spark_ended(x.runs, event, now_ms=x.now)
    else:
        x.suspects.time.servers_are(silent=event.silent, detached=event.detached, now_ms=x.now)
        stalls.on_servers(x, event)


def _look_at_clock(x: Execution) -> Iterable[TaskId]:
    x.armed_at = None
    if x.look_at_ms is not None and x.look_at_ms <= x.now:
        x.press_claims()
    return x.runs.overdue(now_ms=x.now)


def _going(x: Execution, event: Drained | FailedLetGo | LeavesForGood | Closed) -> Iterable[TaskId]:
    """The worker is to leave, or this process to end."""
    if isinstance(event, LeavesForGood):
        x.leaves_for_good = True
        return ()
    if isinstance(event, FailedLetGo):
        x.keeps_failed = False
        return sorted(x.runs.failed)
    x.slots = 0  # planners need none
    if isinstance(event, Closed):
        x.closed = True
        x.last_words.forget_all()  # what they have written stays true for the next process
        x.forget_detached()
    return ()


def _read(x: Execution, event: TopicsRead) -> Iterable[TaskId]:
    """All tasks are compared with the jobs topic only if this has changed: there may be thousands of tasks. Otherwise
    only failed and detached tasks with new records are looked at: a failed one may be tried again elsewhere, and a
    detached one may have been declared gone.
    """
    changed, before = event.jobs is not x.jobs, x.status
    x.jobs, x.status = event.jobs, event.status
    orphan_queries.end_all_unless_others_stay(x)
    if changed or x.status.group is not before.group:
        orphan_queries.end_orphans(x)
    if not changed:
        looking, told = x.runs.looking, x.runs.failed | x.runs.detached
        return sorted(looking | said_since(before, x.status, told)) if told or looking else ()
    x.forget_removed_jobs()
    return list(x.runs)


def _tell_of_suspects(x: Execution) -> None:
    """Write which tasks have become suspects, and which are none any more."""
    if not x.suspects:
        return
    for message in x.suspects.news():
        x.warn(message)
    for acquitted in x.suspects.acquitted(x.runs, now_ms=x.now, learning=frozenset(x.learners.tasks)):
        x.write(x.keep(acquitted), TaskState.RUNNING)


def _next_turn(x: Execution) -> Turn:
    if x.last_words:  # whoever is a suspect may have to start before others
        return Turn(x.last_words.tasks, NO_TASKS)
    servers, server = x.suspects.servers, x.settings.server
    turn = x.suspects.turn(
        x.runs,
        x.look_at_claims(),
        slots=x.slots,
        now_ms=x.now,
        warming=x.learners.with_runner,
        let_others_go_first=lambda: servers.let_others_go_first(server, x.status, now_ms=x.now, wall_ms=x.wall),
    )
    batch = [x.runs[task] for task in turn.batch]
    if not batch or servers.may_begin(batch, x.status, now_ms=x.now, wall_ms=x.wall):
        return turn
    x.look_at_ms = x.look_at_ms or x.now + LOOK_MS
    return Turn(turn.blocked.union(run.task for run in batch), NO_TASKS)


def _start_next(x: Execution) -> None:
    """Start as many tasks as there are free slots. A task that has ended elsewhere makes room for another one."""
    if not x.may_start:
        return
    free, ended = SlotFree(), False
    x.turn = _next_turn(x)
    x.blocked, only = x.turn.blocked, x.turn.only
    for task in sorted(x.turn.stop):
        apply(TRANSITIONS, x.state_of, x, task, RoomWanted())
    for task in (
        x.runs.startable(slots=x.slots, now_ms=x.now, blocked=x.blocked)
        if only is None
        else x.runs.startable_among(only, slots=x.slots, now_ms=x.now)
    ):
        apply(TRANSITIONS, x.state_of, x, task, free)
        learning.start(x, task)
        ended = ended or task not in x.runs
    x.suspects.begun(x.turn, x.runs)
    if ended:
        _start_next(x)
    elif x.runs.held_back is not None and not x.runs[x.runs.held_back].wait_written:
        x.write_waiting(x.runs.held_back)  # otherwise a leader that sees a free slot assumes that it is about to start
