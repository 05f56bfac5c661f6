"""Tasks whose worker's process has ended under them: each is a suspect, and in the end one of them is found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from execution_script import A0, A1, A2, ME, OTHER, PLANNER, Script, words, written

from airflow_provider.spark.local.streaming.query_progress import QueryMoves
from airflow_provider.spark.runner import QueryAdopted, SparkEnded, SparkLost, TaskProgressed, TaskStarted
from airflow_provider.state.records import Halt, HaltRecord, TaskKind, TaskState, WorkerPhase, WorkerStatus
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.placed import Placed, Restart
from airflow_provider.state.views.status_view import Point
from airflow_provider.values.model import ConfigOffset, Epoch, TaskId
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.tasks.commands import Command, WriteStatus
from airflow_provider.worker.tasks.events import Closed, EndWritten
from airflow_provider.worker.tasks.runs.spark_deaths.trials import TRIAL_MS
from airflow_provider.worker.tasks.state import Execution

STREAM = TaskKind.STREAMING
HERE = "host/place/1/2"
QUERY = {"session": "s", "query": "q"}


class Group(Script):
    """This worker beside another one, which may end."""

    def ran_there(self, *tasks: TaskId, **fields: Any) -> None:
        """The other worker has written that it runs these."""
        for task in tasks:
            self.runs_there(task, **fields)

    def other_is(self, phase: WorkerPhase) -> None:
        """What the other worker has said."""
        said = WorkerStatus(worker=OTHER, state=phase, epoch=Epoch(1), slots=2, process="there/1/2")
        self.status = replace(self.status, workers={OTHER: said}, point=Point())
        self.read(self.jobs)

    def give(self, *tasks: TaskId, epoch: int = 1) -> list[Command]:
        """This worker reads all that was written about them before."""
        return [*super().give(*tasks, epoch=epoch), *self.catches_up()]

    def catches_up(self) -> list[Command]:
        """This worker's own record, written now, is read back."""
        at_ms = self.now + self.wall_ahead
        mine = WorkerStatus(worker=ME, state=WorkerPhase.STABLE, epoch=Epoch(1), slots=2, process=HERE, at_ms=at_ms)
        self.status = replace(self.status, workers={**self.status.workers, ME: mine}, point=Point())
        return self.read(self.jobs)

    def begins(self, *tasks: TaskId) -> None:
        for task in tasks:
            self.begin(task)

    def dies(self) -> Group:
        """This worker's process is killed. Its next one has read all that was written."""
        mine = frozenset(self.execution.runs)
        for task in mine:
            run = self.execution.runs[task]
            state = TaskState.RUNNING if run.let_begin else TaskState.PENDING
            self.status = replace(self.status, tasks={**self.status.tasks, task: run.status(state, ME)}, point=Point())
        said = WorkerStatus(worker=ME, state=WorkerPhase.STABLE, epoch=Epoch(1), slots=2, process="an/earlier/one/1")
        self.status = replace(self.status, workers={ME: said}, point=Point())
        self.execution = Execution(self.execution.settings, self.jobs, self.status, now_ms=self.now)
        return self

    def runs(self, *tasks: TaskId) -> bool:
        started = {task for task, run in self.execution.runs.items() if run.state.runs}
        return started == set(tasks)


def told(done: list[Command]) -> list[str]:
    return [line for line in words(done) if "Any of them may be the reason" in line]


def test_what_ran_in_a_process_that_was_lost_is_suspected_in_its_record_and_in_one_line_of_the_log() -> None:
    group = Group(slots=3)
    group.ran_there(A0, A1, A2)
    group.other_is(WorkerPhase.STABLE)
    done = group.give(A0, A1, A2, epoch=2)
    (line,) = told(done)
    assert line.startswith("the process of worker w2 has ended, or lost its lease, while a:0, a:1, a:2 ran: they run")
    pending = [command.status for command in done if isinstance(command, WriteStatus)]
    assert [(said.state, said.attempt, said.failures, said.process_deaths) for said in pending] == [
        (TaskState.PENDING, 2, 0, 1)
    ] * 3
    assert all(said.error is not None and "lost its lease, once" in said.error.message for said in pending)
    assert group.runs(A0, A1, A2), "all run again"


def test_a_task_that_hangs_long_after_it_has_ended_spark_is_found_nevertheless() -> None:
    """Each time its worker hears of the end of Spark at once, and of the end of the attempt much later."""
    group = Group(kind=STREAM, retries=0)
    group.give(A0)
    for spark in range(1, 4):
        group.begin(A0)
        group.feed(SparkEnded, spark=spark, tasks=frozenset({A0}))
        for _ in range(5):
            group.wait(TRIAL_MS)
        done = group.feed(SparkLost, task=A0, spark=spark, error="gone")
        group.wait(TRIAL_MS)
    assert written(done, TaskState.FAILED).spark_deaths == 3


def test_who_was_tried_alone_is_acquitted_as_soon_as_something_else_begins() -> None:
    """Otherwise it would fail for what the other task does to Spark."""
    group = Group(retries=0)
    group.ran_there(A0, spark_deaths=1)
    group.other_is(WorkerPhase.STABLE)
    group.give(A0, epoch=2)
    group.begin(A0)
    group.wait(10 * TRIAL_MS)
    assert group.execution.runs[A0].deaths == 2, "it is alone, and nobody else can be the reason"
    said = written(group.give(A1, epoch=3), TaskState.RUNNING)
    assert (said.task, said.spark_deaths, said.process_deaths, said.alone) == (A0, 0, 0, False)
    group.begin(A1)
    done = group.feed(SparkLost, task=A0, spark=1, error="gone")
    assert written(done, TaskState.PENDING).died_alone == 0


def test_who_was_tried_alone_is_acquitted_before_a_warm_up_begins() -> None:
    group = Group(retries=0)
    group.ran_there(A0, spark_deaths=1)
    group.other_is(WorkerPhase.STABLE)
    group.give(A0, epoch=2)
    group.begin(A0)
    group.wait(TRIAL_MS)
    assert group.execution.runs[A0].deaths == 2, "it is alone, and nobody else can be the reason"
    assert words(group.learn(A1)) == ["write a:0 running", "learns a:1", "warm up a:1 #1"]
    assert group.execution.runs[A0].deaths == 0


def test_a_trial_in_an_earlier_run_of_the_job_proves_nothing_when_a_process_ends() -> None:
    """Its attempts have had the same numbers."""
    group = Group(retries=0)
    group.ran_there(A0, state=TaskState.STOPPED, spark_deaths=2)
    group.give(A0, epoch=2)
    group.begin(A0)
    group.finish(A0)
    group.answer(EndWritten, A0)
    group.define(run_key="r2")
    group.ran_there(A0, run_key="r2", epoch=Epoch(3), process_deaths=2, alone=True)
    group.other_is(WorkerPhase.STABLE)
    group.give(A0, epoch=4)
    assert group.runs(A0), "people may have ended it"


def test_who_is_told_to_stop_on_trial_is_alone_no_more_however_long_that_takes() -> None:
    """Others begin meanwhile, and may end the process."""
    group = Group(retries=0)
    group.ran_there(A0, process_deaths=1)
    group.other_is(WorkerPhase.STABLE)
    group.give(A0, A1, epoch=2)
    assert written(group.begin(A0), TaskState.RUNNING).alone
    assert not written(group.revoke(A0), TaskState.RUNNING).alone
    assert group.runs(A0, A1)


@pytest.mark.parametrize("opened", [True, False])
def test_a_suspect_whose_code_was_not_called_before_spark_ended_starts_again(opened: bool) -> None:
    """It is not counted for this end. Nothing else begins before it was tried, so nothing must wait for it to begin."""
    group = Group(retries=0)
    group.ran_there(A0, process_deaths=1)
    group.other_is(WorkerPhase.STABLE)
    group.give(A0, A1, epoch=2)
    if opened:
        group.feed(TaskStarted, task=A0)
    group.feed(SparkLost, task=A0, spark=1, error="gone")
    assert group.execution.runs[A0].deaths == 2
    group.wait(TRIAL_MS)
    assert group.runs(A0)


def test_a_planner_is_suspected_like_any_task() -> None:
    group = Group()
    group.ran_there(PLANNER, fingerprint=group.definition.fingerprint)
    group.other_is(WorkerPhase.STABLE)
    group.read(replace(group.jobs, plans={}))
    said = written(group.give(PLANNER, epoch=2), TaskState.PENDING)
    assert (said.attempt, said.process_deaths) == (2, 1)


@pytest.mark.parametrize(
    ("phase", "fields"),
    [
        (WorkerPhase.LEFT, {}),
        (WorkerPhase.STOPPING, {}),
        (WorkerPhase.DEFERRED, {}),
        (WorkerPhase.STABLE, {"state": TaskState.STOPPED}),
        (WorkerPhase.STABLE, {"started_at_ms": None, "state": TaskState.PENDING}),
        (WorkerPhase.STABLE, {"run_key": "an earlier run"}),
    ],
    ids=["left", "stops", "deferred", "has stopped", "waited", "another run"],
)
def test_what_ended_in_order_is_not_suspected(phase: WorkerPhase, fields: dict[str, Any]) -> None:
    group = Group()
    group.ran_there(A0, **fields)
    group.other_is(phase)
    assert told(group.give(A0, epoch=2)) == []
    assert group.execution.runs[A0].process_deaths == 0


class Handed(Group):
    """This worker gets what another one has just stopped, and has not read that yet."""

    def __init__(self, **definition: Any) -> None:
        super().__init__(**definition)
        self.ran_there(A0, spark_deaths=1)
        self.other_is(WorkerPhase.STABLE)

    def take(self, *tasks: TaskId) -> list[Command]:
        return Script.give(self, *tasks, epoch=2)

    def stopped_there(self) -> None:
        said = self.status.tasks[A0]
        self.say(replaced(said, state=TaskState.STOPPED, finished_at_ms=self.now + self.wall_ahead))


def test_what_was_stopped_elsewhere_is_not_suspected_though_this_is_read_late() -> None:
    group = Handed()
    assert words(group.take(A0, A1)) == [], "it waits, and whoever may have to wait for its trial"
    group.stopped_there()
    assert group.runs()
    assert told(group.catches_up()) == []
    assert group.runs(A0, A1)
    run = group.execution.runs[A0]
    assert (run.attempt, run.spark_deaths, run.process_deaths) == (2, 1, 0)


def test_what_says_that_it_runs_when_all_is_read_is_suspected() -> None:
    group = Handed()
    group.take(A0, A1)
    assert len(told(group.catches_up())) == 1
    assert group.runs(A0), "alone on trial"


def test_a_worker_whose_own_record_is_not_stored_goes_by_what_it_has_read() -> None:
    group = Handed()
    group.take(A0)
    group.wait(29_999)
    assert group.runs()
    assert len(told(group.wait(1))) == 1
    assert group.runs(A0)


def test_a_record_of_this_worker_from_before_says_nothing_of_what_was_written_since() -> None:
    group = Handed()
    group.catches_up()
    group.now += 1
    group.take(A0)
    assert group.runs()


def test_a_task_that_comes_back_here_waits_for_the_worker_that_had_it_in_between() -> None:
    group = Group()
    group.running(A0)
    group.revoke(A0)
    group.stopped(A0)
    group.ran_there(A0, epoch=Epoch(2), attempt=2)
    group.other_is(WorkerPhase.STABLE)
    assert words(Script.give(group, A0, epoch=3)) == []
    group.say(replaced(group.status.tasks[A0], state=TaskState.STOPPED))
    assert told(group.catches_up()) == []
    assert group.runs(A0)


def test_what_waits_for_its_next_attempt_and_still_seems_to_run_says_that_it_has_stopped() -> None:
    """Otherwise its next worker may take this process for dead, and forget the failure."""
    group = Group(retries=3, retry_delay_ms=60_000)
    group.running(A0)
    group.say(group.execution.runs[A0].status(TaskState.RUNNING, ME))
    group.fail(A0)
    said = written(group.revoke(A0), TaskState.STOPPED)
    assert (said.failures, said.process_deaths) == (1, 0)


def test_a_record_of_an_earlier_process_of_this_worker_says_nothing() -> None:
    group = Handed()
    ahead = WorkerStatus(
        worker=ME, state=WorkerPhase.STABLE, epoch=Epoch(1), slots=2, process="host/place/3/4", at_ms=10**12
    )
    group.status = replace(group.status, workers={**group.status.workers, ME: ahead}, point=Point())
    group.take(A0)
    group.read(group.jobs)
    assert group.runs()


def test_a_retry_that_is_asked_for_meanwhile_is_not_forgotten() -> None:
    group = Handed(retries=3)
    group.say(replaced(group.status.tasks[A0], failures=3))
    group.take(A0)
    group.read(replace(group.jobs, offset=ConfigOffset(7), restarts={"a": Restart(by="me", offset=ConfigOffset(6))}))
    group.stopped_there()
    group.catches_up()
    assert group.runs(A0)
    assert group.execution.runs[A0].failures == 0


def test_who_ends_meanwhile_leaves_what_was_written_to_the_next_process() -> None:
    group = Handed()
    group.take(A0)
    assert words(group.feed(Closed)) == []
    assert words(group.wait(60_000)) == []


def test_while_it_waits_for_last_words_a_task_can_be_revoked_and_given_back_and_nothing_is_lost() -> None:
    group = Handed()
    group.take(A0)
    assert words(group.revoke(A0)) == ["released a:0"], "what its last process has written stays true"
    group.take(A0)
    assert len(told(group.catches_up())) == 1


def test_a_job_that_is_paused_meanwhile_starts_when_the_pause_is_over() -> None:
    group = Handed()
    group.take(A0)
    running = group.jobs
    halts = {"a": Placed(HaltRecord(job="a", halt=Halt.PAUSED, by="me", at_ms=0), 1)}
    group.read(replace(running, halts=halts))
    group.stopped_there()
    assert told(group.catches_up()) == []
    assert group.runs()
    group.read(running)
    assert group.runs(A0)


def test_a_query_that_was_detached_just_before_is_adopted_though_nothing_may_start_here() -> None:
    group = Handed(kind=STREAM)
    group.give(A1)
    group.begin(A1)
    group.now += 1
    group.take(A0)
    group.feed(SparkLost, task=A1, spark=1, error="gone")
    group.say(replaced(group.status.tasks[A0], handle=QUERY))
    assert words(group.catches_up()) == ["take over a:0 #1"]
    group.feed(QueryAdopted, task=A0, handle=QUERY)
    assert group.runs(A0)


def test_a_task_that_is_configured_no_more_is_released_meanwhile() -> None:
    group = Handed()
    group.take(A0)
    assert "released a:0" in words(group.plan())
    assert group.catches_up() == []


def test_a_task_that_has_finished_elsewhere_does_not_start() -> None:
    group = Handed()
    group.take(A0)
    group.say(replaced(group.status.tasks[A0], state=TaskState.FINISHED))
    assert words(group.catches_up()) == ["released a:0"]


def test_a_new_process_of_the_same_worker_suspects_what_ran_in_the_last_one() -> None:
    group = Group()
    group.running(A0)
    assert group.dies().give(A0)
    assert group.execution.runs[A0].process_deaths == 1
    assert group.execution.runs[A0].attempt == 2


def test_a_suspect_that_had_failed_here_before_does_not_take_the_next_worker_with_it() -> None:
    """It is tried here, not elsewhere because of that failure."""
    group = Group(retries=5)
    group.running(A0)
    group.fail(A0)
    group.begin(A0)
    assert group.execution.runs[A0].failed_on == (ME,)
    group.dies().give(A0)
    assert group.execution.runs[A0].failed_on == ()


def test_who_ends_the_process_again_and_again_is_failed_and_its_neighbours_run() -> None:
    """The first task ends its process as soon as its code is called."""
    group = Group(slots=9, tasks=9, kind=STREAM, retries=0)
    tasks, culprit = [TaskId("a", index) for index in range(9)], TaskId("a", 5)
    deaths, done = 0, group.give(*tasks)
    while group.state(culprit) is None or not any("insist on a:5 failed" in line for line in words(done)):
        began = [task for task, run in group.execution.runs.items() if run.state.runs and run.began_ms is None]
        group.begins(*(task for task in began if task != culprit))
        if culprit in began:
            group.begin(culprit)
            deaths += 1
            group.now += 5_000
            done = group.dies().give(*tasks)
        else:
            done = group.wait(TRIAL_MS)
        assert deaths <= 2 + 4 + 2, "two together, as many as halve nine tasks, and two alone"
    assert group.execution.runs[culprit].error is not None
    failure = group.execution.runs[culprit].error
    assert failure is not None
    assert "so the task counts as the reason and is not tried again: look for what ends a process" in failure.message
    for _ in range(5):
        group.begins(*(t for t, run in group.execution.runs.items() if run.state.runs and run.began_ms is None))
        group.wait(TRIAL_MS)
    assert group.runs(*(task for task in tasks if task != culprit)), "the others run"
    assert not any(group.execution.runs[task].failures for task in tasks)


def test_what_was_noted_of_a_job_is_forgotten_with_it() -> None:
    group = Group(retries=5)
    group.running(A0, A1)
    group.fail(A0)
    group.feed(SparkLost, task=A1, spark=1, error="gone")
    group.read(JobsSnapshot())
    assert not group.execution.evidence.failures
    assert not group.execution.suspects.between.returning


def test_who_has_stood_its_trial_is_suspected_no_more_and_the_topic_is_told() -> None:
    group = Group(kind=STREAM)
    group.ran_there(A0, process_deaths=1)
    group.other_is(WorkerPhase.STABLE)
    group.give(A0, epoch=2)
    assert group.execution.runs[A0].process_deaths == 2
    group.begin(A0)
    assert words(group.wait(TRIAL_MS - 1)) == []
    said = written(group.wait(1), TaskState.RUNNING)
    assert (said.process_deaths, said.alone) == (0, False)


def adopts_a_suspect() -> Group:
    """A triggerer, long after its query has begun. The server takes a while to answer."""
    group = Group(kind=STREAM, in_triggerer=True)
    long_ago_ms = group.now + group.wall_ahead - 2 * TRIAL_MS
    group.runs_there(A0, kind=STREAM, handle=QUERY, started_at_ms=long_ago_ms, spark_deaths=1, alone=True)
    group.give(A0, epoch=2)
    group.now += TRIAL_MS
    assert written(group.feed(QueryAdopted, task=A0, handle=QUERY), TaskState.RUNNING).spark_deaths == 1
    return group


def test_only_the_time_in_which_it_is_watched_acquits_a_suspect_that_is_adopted() -> None:
    """Its server may have ended before."""
    group = adopts_a_suspect()
    group.feed(TaskProgressed, task=A0, progress=QueryMoves())
    assert words(group.wait(TRIAL_MS - 1)) == []
    assert written(group.wait(1), TaskState.RUNNING).spark_deaths == 0


def test_a_suspect_that_was_alone_on_trial_still_is_where_it_is_adopted() -> None:
    """Otherwise it would never count as the reason if each of its trials is handed over."""
    group = adopts_a_suspect()
    said = written(group.feed(SparkLost, task=A0, spark=-1, error="gone"), TaskState.PENDING)
    assert (said.spark_deaths, said.died_alone) == (2, 1)


def test_while_one_is_on_trial_alone_nothing_begins_and_its_record_says_so() -> None:
    group = Group(kind=STREAM)
    group.ran_there(A0, process_deaths=1)
    group.other_is(WorkerPhase.STABLE)
    assert "start a:0 #2" in words(group.give(A0, A1, epoch=2))
    assert written(group.begin(A0), TaskState.RUNNING).alone
    assert group.runs(A0)
    assert "start a:1 #1" in words(group.wait(TRIAL_MS))
