"""Which task ends Spark, or its worker's process; and when tasks start again after that.

Several tasks share a JVM, a process or a Spark Connect server. When it ends ("dies"), nobody can see which of them was
the reason. Each that ran there is a *suspect*, and is counted in its record: ``spark_deaths`` if Spark has ended,
``process_deaths`` if the worker's process has ended or lost its lease (``process_deaths.py``). Both are the same kind
of thing, so their sum decides. All of them run again, and none has failed.

*Trials.* A task that would reach the limit (``max_spark_deaths``) with the next death gets a trial. Those that wait for
one come back in batches: first one task, then two, four, eight and so on, while nothing dies. Planners need no slot, so
they are tried while others wait for one. While a batch is on trial, nothing else begins, and before it begins, all else
must have run for the time of a trial. So a death during a trial counts for that batch alone. What ran well before goes
on beside it: to stop it would take from it for certain what it may lose in a death. A task has stood its trial when it
has run for a minute, or has ended. Then it is *acquitted*: its counts begin at zero. The same time acquits those that
were counted and need no trial. Time in which their server does not answer, in which no process watches them, or after
their Spark has ended, however long their code takes to notice, does not count (``trials.py``).

*Halving.* If a batch dies, its tasks have been counted once more than the others. What needs no trial comes back first,
and then those that were counted less, all together, because the reason is not among them. Then the batch comes back in
batches that again begin with one task. A batch is at most as large as all that came before it and one more. So with
each death at most half of the suspects, rounded up, are left: of n tasks, one that ends Spark soon after its start is
alone on trial when it ends it for the time ``max_spark_deaths + ceil(log2(n))`` at the latest.

Whose trial is broken off, because the task meets something else, lets those go first that have had none since.
What needs no trial waits meanwhile, and starts again between two trials (``between_trials.py``).

*Verdict.* A death while a task is alone on trial does not convict it: what ran well beside it may end Spark late. So it
is tried once more, with nothing beside it, and fails only if it ends Spark or the process then (``solitude.py``). For a
process it takes two deaths anyway, because people end it; so at most this costs one death of Spark.

What ends Spark or its process only later than a minute after its start is acquitted each time, and nobody fails. A
stream continues from where it was. A batch task begins anew, and would never end. So after a death of Spark its trials
grow with the deaths of Spark that it was acquitted of, and while it is the only one that uses this Spark, it is not
acquitted: only when something else begins. Not so after the death of a process: a task that takes hours may lose its
machine several times.

Each worker decides this by itself, from the records of its tasks: these go with the tasks when they move. Workers that
share a server try their suspects one worker after the other (``shared_servers.py``). There, nothing stops for a trial,
because what other workers run goes on: a task fails when it was alone on trial at two deaths in a row. So a task that
ends the server, or its process, a minute or two after its start may still have another one failed.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Final

from airflow_provider.spark.runner import SparkEnded, SparkLost
from airflow_provider.state.records import TaskFailure, TaskStatus
from airflow_provider.values.in_short import in_short
from airflow_provider.values.model import NO_TASKS, TaskId, Tasks, WorkerId
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.tasks.runs.retry_pauses import doubling_ms
from airflow_provider.worker.tasks.runs.run_state import RunState
from airflow_provider.worker.tasks.runs.run_table import RunTable
from airflow_provider.worker.tasks.runs.runs import TaskRun
from airflow_provider.worker.tasks.runs.spark_deaths.accusations import Accusations
from airflow_provider.worker.tasks.runs.spark_deaths.between_trials import BetweenTrials
from airflow_provider.worker.tasks.runs.spark_deaths.shared_servers import SharedServers
from airflow_provider.worker.tasks.runs.spark_deaths.solitude import Solitude, beside
from airflow_provider.worker.tasks.runs.spark_deaths.trials import (
    TRIAL_MS,
    TrialTime,
    is_young,
    trial_length_ms,
    would_never_end,
)

_FIRST_WAIT_MS: Final = 1_000
_LONGEST_WAIT_MS: Final = 60_000
_CALM_MS: Final = 600_000
"""After this time without an end of Spark, the wait after the next end is short again."""
_LOOK_AGAIN_MS: Final = 1_000
_CAUSE_LENGTH: Final = 250
"""Characters: half of an error's message."""
_ALONE: Final = 2
"""At so many deaths a task must have been alone on trial, so that it counts as the reason."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Which tasks may start now.

    :param blocked: these may not
    :param only: nothing else may; None: everything else may, too
    :param stop: these are to stop first
    :param on_trial: whether those that alone may start are a batch on trial
    """

    blocked: Tasks = NO_TASKS
    only: Tasks | None = None
    stop: Tasks = NO_TASKS
    on_trial: bool = True

    @property
    def batch(self) -> Tasks:
        """The tasks that start on trial."""
        return self.only if self.only and self.on_trial else NO_TASKS

    def is_alone(self, task: TaskId) -> bool:
        """Whether this task starts alone on trial."""
        return self.batch == {task}


_ANYTHING: Final = Turn()


class Suspects:
    """The suspects among one worker's tasks, and its pauses after an end of Spark.

    :param max_deaths: a task may fail when so many deaths have been counted
    :param worker: whose tasks they are
    :ivar accusations: who was accused of ends of Spark
    :ivar between: what may begin between two trials
    :ivar condemned: tasks that are not to start again, because they have ended their worker's process
    """

    def __init__(self, max_deaths: int, worker: WorkerId) -> None:
        self._max_deaths = max_deaths
        self._tried_from = max(1, max_deaths - 1)
        self.servers = SharedServers(worker, tried_from=self._tried_from)
        self.time = TrialTime()
        self._solitude = Solitude(self.time.is_over)
        self._suspects: set[TaskId] = set()
        self._acquits_at_ms = 0
        self._look_at_ms: int | None = None
        self.accusations = Accusations()
        self.between = BetweenTrials()
        self._batch_of = self._batch = 0
        self._were_tried: set[TaskId] = set()
        self._news: dict[WorkerId, list[str]] = {}
        self.condemned: set[TaskId] = set()
        self._in_a_row = 0
        self._last_ms: int | None = None
        self._hold_until_ms = 0

    def __bool__(self) -> bool:
        """Whether there are suspects, or there is something to tell of some."""
        return bool(self._suspects or self._news)

    def admit(self, run: TaskRun) -> None:
        """Note a task that this worker has got, in case that it is a suspect."""
        if run.deaths:
            self._suspects.add(run.task)
        if self.needs_trial(run):
            self._batch_of = 0

    def forget_jobs_but(self, jobs: Container[str]) -> None:
        self.between.forget_jobs_but(jobs)

    # ---- deaths

    def lost(self, runs: RunTable, event: SparkLost, *, now_ms: int) -> TaskRun:
        """The task after its Spark has ended."""
        self.wait_after(runs, event.spark, now_ms=now_ms)
        run, accused = runs[event.task], self.accusations.of(event.spark)
        error = TaskFailure.of(event.error, event.traceback)
        self.between.returning.add(run.task)
        if run.began_ms is None or run.task not in accused:
            return replaced(run, alone=False, error=error)
        alone = run.alone or (_wants_solitude(run) and self._solitude.was_alone_on_spark(run))
        run = self._counted(run, alone=alone, spark=1)
        advice = "give it less to do, or Spark more memory"
        failure = self._failure(run, "Spark has ended", advice, condemned=self.condemns(run))
        return replaced(run, error=TaskFailure.of(f"{_cause_in(error)}; {failure}", error.traceback))

    def process_ended(self, run: TaskRun, last: TaskStatus) -> TaskRun:
        """A task when a worker gets it whose last process has ended, or lost its lease, while the task ran.

        :param last: the record that says that it was running
        """
        self.between.returning.add(run.task)
        run = self._counted(run, alone=last.alone, process=1)
        condemned = self._was_alone(run, deaths=_ALONE)
        if condemned:
            self.condemned.add(run.task)
        else:
            self._news.setdefault(last.worker, []).append(run.label)
        advice = (
            "look for what ends a process, such as os._exit, a crash of a native library, too much memory, or code that"
            " holds the interpreter for longer than the session"
        )
        what = "the process of its worker has ended, or lost its lease,"
        return replaced(run, alone=False, error=TaskFailure.of(self._failure(run, what, advice, condemned=condemned)))

    def condemns(self, run: TaskRun) -> bool:
        """Whether a task that has just lost its Spark counts as the reason."""
        had_it_to_itself = not run.runs_on and self._solitude.was_alone_on_spark(run)
        return self._was_alone(run, deaths=1 if had_it_to_itself else _ALONE)

    def _was_alone(self, run: TaskRun, *, deaths: int) -> bool:
        """Whether it was alone at so many deaths, and also at the last one."""
        return run.alone and run.deaths >= self._max_deaths and run.died_alone >= deaths

    def news(self) -> list[str]:
        """Messages about tasks that have become suspects since the last call: one for each process."""
        news, self._news = self._news, {}
        return [
            f"the process of worker {worker} has ended, or lost its lease, while {in_short(labels, most=5)} ran:"
            f" {'it runs' if len(labels) == 1 else 'they run'} again. Any of them may be the reason"
            for worker, labels in news.items()
        ]

    def _counted(self, run: TaskRun, *, alone: bool, spark: int = 0, process: int = 0) -> TaskRun:
        """:param alone: whether it was alone on trial; after a death at which it was, with nothing beside it"""
        run = replaced(
            run,
            spark_deaths=run.spark_deaths + spark,
            process_deaths=run.process_deaths + process,
            alone=alone,
            died_alone=run.died_alone + 1 if alone or _wants_solitude(run) else 0,
        )
        self.admit(run)
        return run

    def _failure(self, run: TaskRun, what: str, advice: str, *, condemned: bool) -> str:
        times = f"{run.deaths} times" if run.deaths > 1 else "once"
        if run.spark_deaths and run.process_deaths:
            what = "Spark or the process of its worker has ended"
        verdict = (
            f", so the task counts as the reason and is not tried again: {advice} (max_spark_deaths={self._max_deaths})"
        )
        return f"{what} {times} while this task ran{verdict if condemned else ''}"

    # ---- pauses

    def spark_ended(self, runs: RunTable, event: SparkEnded, *, now_ms: int) -> None:
        """Spark has ended under tasks that have not lost it yet as far as they know."""
        self.wait_after(runs, event.spark, now_ms=now_ms)
        self.time.spark_ended(runs, event.tasks)

    def wait_after(self, runs: RunTable, spark: int, *, now_ms: int) -> None:
        """A Spark has ended: start nothing for a while. All that ran on it hear of this, each for itself."""
        if spark in self.accusations:
            return
        if self.holds(now_ms):  # nothing has begun since the last one: it is the same
            self.accusations.add(spark, self.accusations.last, runs)
            return
        ran = frozenset(task for task in runs.active if runs[task].state is RunState.STARTED)
        self.accusations.add(spark, self._tried(runs, now_ms)[1] or ran, runs)
        self._batch_of = 0
        self._were_tried.clear()
        self.between.next_turn()
        self.servers.come_again_at_once()
        calm = self._last_ms is not None and now_ms - self._last_ms >= _CALM_MS
        self._in_a_row = 1 if calm else self._in_a_row + 1
        self._last_ms = now_ms
        self._hold_until_ms = now_ms + doubling_ms(_FIRST_WAIT_MS, self._in_a_row, _LONGEST_WAIT_MS)

    def holds(self, now_ms: int) -> bool:
        """Whether nothing may start because Spark has just ended."""
        return now_ms < self._hold_until_ms

    # ---- trials

    def acquitted(self, runs: RunTable, *, now_ms: int, learning: Tasks = NO_TASKS) -> list[TaskRun]:
        """The tasks that have stood the time of their trial, with their new counts.

        :param learning: what is warmed up in this process, or is about to be
        """
        if not self._suspects or now_ms < self._acquits_at_ms:
            return []
        self.time.look(runs, now_ms)
        self._suspects = {task for task in self._suspects if task in runs and runs[task].deaths}
        started = [run for task in self._suspects if self._may_end_spark(run := runs[task])]
        left_ms = (trial_length_ms(run) - self.time.stood_ms(run, now_ms) for run in started)
        self._acquits_at_ms = now_ms + min((TRIAL_MS, *(ms for ms in left_ms if ms > 0)))  # others may begin meanwhile
        stood = [run for run in started if self._has_stood(run, now_ms)]
        alone = {run.task for run in stood if would_never_end(run) and self._is_alone(run, runs, learning)}
        acquitted = [_without_deaths(run) for run in stood if run.task not in alone]
        if alone:
            self._acquits_at_ms = now_ms  # as soon as something begins beside it, it is not the only possible reason
        self._suspects.difference_update(run.task for run in acquitted)
        return acquitted

    def after_trial(self, run: TaskRun, *, now_ms: int) -> TaskRun:
        """The task as it stops for the trial of another: acquitted, if it has stood its own."""
        return _without_deaths(run) if self._may_end_spark(run) and self._has_stood(run, now_ms) else run

    def turn(
        self,
        runs: RunTable,
        others: Tasks = NO_TASKS,
        *,
        slots: int,
        now_ms: int,
        warming: Tasks = NO_TASKS,
        let_others_go_first: Callable[[], bool] = bool,
    ) -> Turn:
        """Which tasks may start.

        :param others: those that may not for other reasons
        :param slots: how many slots the worker has
        :param warming: its warm-ups
        :param let_others_go_first: whether nothing may begin between trials because of other workers on its server
        """
        self._look_at_ms = None
        if not self._suspects:
            self._solitude.forget()
            return Turn(others) if others else _ANYTHING
        waiting, on_trial = self._tried(runs, now_ms)
        if on_trial:
            self._look_at_ms = now_ms + _LOOK_AGAIN_MS
            return Turn(others.union(run.task for run in waiting), NO_TASKS)
        ready = [run for run in waiting if run.task not in others and run.not_before_ms <= now_ms]
        lone = self._next_lone(ready, runs, slots)
        if lone is None:
            self._solitude.forget()
        elif self._solitude.keeps_waiting(lone, there := beside(lone, runs, warming), now_ms=now_ms):
            self._look_at_ms = now_ms + _LOOK_AGAIN_MS
            stop = frozenset(task for task in there & runs.keys() if runs[task].state is RunState.STARTED)
            self.between.returning |= stop
            return Turn(others.union(run.task for run in waiting), NO_TASKS, stop)
        others |= self._held_back(runs, others, slots, now_ms, let_others_go_first)
        if lone is None and waiting:
            tried = frozenset(run.task for run in waiting)
            if self.between.some_return(runs, tried, others, slots=slots, now_ms=now_ms):
                return Turn(others | tried)
            again = self.between.start_again(runs, others | tried, slots=slots, now_ms=now_ms)
            if again and not let_others_go_first():
                return Turn(others | tried, again, on_trial=False)
        batch = self._next_batch(ready, waiting) if lone is None else [lone]
        planners = [run for run in ready if run.task.is_planner]
        fitting = _fitting(batch, runs, slots) or self._next_batch(planners, waiting)
        blocked = others.union(run.task for run in waiting) - {run.task for run in fitting or batch[:1]}
        if not fitting:
            return Turn(blocked)  # it waits for slots like all others
        self._look_at_ms = now_ms + _LOOK_AGAIN_MS
        return Turn(blocked, NO_TASKS if self._some_are_young(runs, now_ms) else frozenset(run.task for run in fitting))

    def starts_alone(self, run: TaskRun, turn: Turn, runs: RunTable, warming: Tasks) -> bool:
        """Whether a task of this turn starts alone on trial; after a death at which it was, with nothing beside it."""
        if not turn.is_alone(run.task):
            return False
        there = beside(run, runs, warming)
        self._solitude.begins(run, there, runs)
        return not (there and _wants_solitude(run))

    def started(self, run: TaskRun, turn: Turn, *, now_ms: int) -> None:
        if run.runs_on and not turn.batch and (turn.only or (run.deaths and run.task not in self.between.returning)):
            self.servers.have_come_again()
        self.between.started(run.task, now_ms=now_ms)

    def begun(self, turn: Turn, runs: RunTable) -> None:
        """The tasks of this turn have started: if they are a batch on trial, the next one may be twice as large."""
        if turn.batch:
            self.between.next_turn()
            self._were_tried |= turn.batch
            self._batch = 2 * len(turn.batch)
            self._batch_of = max((runs[task].deaths for task in turn.batch if task in runs), default=0)

    def trial_ms(self, runs: RunTable, *, now_ms: int) -> int | None:
        """When to check again whether a trial is over, or may begin (monotonic milliseconds); None: none is wanted."""
        waiting, on_trial = self._tried(runs, now_ms)
        wanted = on_trial or self._solitude.is_wanted or (waiting and self._some_are_young(runs, now_ms))
        return now_ms + _LOOK_AGAIN_MS if wanted else None

    def due_ms(self, other_ms: int | None = None, *, now_ms: int) -> int | None:
        """When :meth:`holds` and :meth:`turn` may change (monotonic milliseconds).

        :param other_ms: when to look again for another reason, if that is sooner
        """
        due_ms = self._hold_until_ms if self.holds(now_ms) else self._look_at_ms
        acquits_ms = self._acquits_at_ms if self._suspects else None
        own_ms = (at_ms for at_ms in (due_ms, acquits_ms) if at_ms is not None and at_ms > now_ms)
        return min((*own_ms, *(() if other_ms is None else (other_ms,))), default=None)

    def _held_back(
        self, runs: RunTable, others: Tasks, slots: int, now_ms: int, let_others_go_first: Callable[[], bool]
    ) -> Tasks:
        """What was counted and needs no trial, if it would start again beside the trials of other workers."""
        here = (runs[task] for task in self._suspects - self.between.returning - others if task in runs)
        again = frozenset(
            run.task
            for run in here
            if run.state is RunState.WAITING and run.not_before_ms <= now_ms and not self.needs_trial(run)
            if run.runs_on and (runs.busy < slots or run.task.is_planner)
        )
        if not again or not let_others_go_first():
            return NO_TASKS
        self._look_at_ms = now_ms + _LOOK_AGAIN_MS
        return again

    def _next_lone(self, ready: list[TaskRun], runs: RunTable, slots: int) -> TaskRun | None:
        """Who is to be tried next with nothing beside it. While there is no slot for it, nothing stops: what had this
        slot would come back to none.
        """
        lone = (run for run in ready if slots and _wants_solitude(run) and _fitting([run], runs, slots))
        return min(lone, key=lambda run: run.task, default=None)

    def _next_batch(self, ready: list[TaskRun], waiting: list[TaskRun]) -> list[TaskRun]:
        """Those that were counted least. If others were counted more, the reason is among these: all may come back.
        Whose trial was broken off lets those go first that have had none since.
        """
        if not ready:
            return []
        untried = [run for run in ready if run.task not in self._were_tried]
        if not untried:
            self._were_tried.difference_update(run.task for run in ready)
        ready = untried or ready
        least = min(run.deaths for run in ready)
        batch = sorted((run for run in ready if run.deaths == least), key=lambda run: run.task)
        if any(run.deaths > least for run in waiting):
            return batch
        return batch[: self._batch if self._batch_of == least else 1]

    def _tried(self, runs: RunTable, now_ms: int) -> tuple[list[TaskRun], Tasks]:
        """The tasks that wait for their trial, and those on trial."""
        self.time.look(runs, now_ms)
        waiting, on_trial = [], []
        for task in self._suspects:
            run = runs.get(task)
            if run is None or not self.needs_trial(run):
                continue
            if run.state is RunState.WAITING:
                waiting.append(run)
            elif self._may_end_spark(run) and not self._has_stood(run, now_ms):
                on_trial.append(task)
        return waiting, frozenset(on_trial)

    def _has_stood(self, run: TaskRun, now_ms: int) -> bool:
        return self.time.stood_ms(run, now_ms) >= trial_length_ms(run)

    def needs_trial(self, run: TaskRun) -> bool:
        """Whether it starts again only on trial."""
        return run.deaths >= self._tried_from

    def _may_end_spark(self, run: TaskRun) -> bool:
        return run.state is RunState.STARTED and not self.time.is_over(run)

    def _is_alone(self, run: TaskRun, runs: RunTable, learning: Tasks) -> bool:
        """Whether nothing else can end its Spark. Nobody knows this of a server, which other workers may use, too."""
        others_are_over = all(task == run.task or self.time.is_over(runs[task]) for task in runs.active)
        return not run.runs_on and others_are_over and learning <= {run.task}

    def _some_are_young(self, runs: RunTable, now_ms: int) -> bool:
        """Whether something runs here that might still end Spark soon after its start."""
        running = (runs[task] for task in runs.active)
        return any(run.state.runs and is_young(run, now_ms) and not self.time.is_over(run) for run in running)


def _wants_solitude(run: TaskRun) -> bool:
    """Whether it was alone on trial at a death, and is to be tried with nothing beside it."""
    return run.died_alone > 0 and not run.runs_on


def _fitting(batch: list[TaskRun], runs: RunTable, slots: int) -> list[TaskRun]:
    """The first of them, as many as there are free slots for."""
    fitting, busy = [], runs.busy
    for run in batch:
        busy += 0 if run.task.is_planner else runs.share_of(run, slots=slots)
        if busy > slots and not run.task.is_planner:
            break
        fitting.append(run)
    return fitting


def _cause_in(failure: TaskFailure) -> str:
    """It comes first, but must not push out what follows from it."""
    cause = failure.line
    return cause if len(cause) <= _CAUSE_LENGTH else f"{cause[: _CAUSE_LENGTH - 1]}…"


def _without_deaths(run: TaskRun) -> TaskRun:
    return replaced(
        run, spark_deaths=0, process_deaths=0, died_alone=0, alone=False, acquitted=run.acquitted + run.spark_deaths
    )
