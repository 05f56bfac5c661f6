"""A group whose streams run on two servers, and everything that may go wrong. All is drawn from a seed, so a history
can be replayed by its number.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, TypeVar

from simulation.detached.life import SLOTS, Life
from simulation.detached.servers import Server
from simulation.detached.virtual_loop import VirtualLoop

from airflow_provider.spark.connect.server import ConnectServer
from airflow_provider.state.records import JobDefinition, PlanRecord, TaskKind, TaskState, TaskStatus, task_key
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot, StatusView
from airflow_provider.values.model import Epoch, TaskId, WorkerId
from airflow_provider.worker.tasks.runs.run_state import RunState
from airflow_provider.worker.tasks.runs.runs import TaskRun

T = TypeVar("T")
_RACE: Final = (
    "org.apache.spark.SparkException: Race while writing batch 7\n"
    "\tat org.apache.spark.sql.execution.streaming.MicroBatchExecution.markMicroBatchStart(MicroBatchExecution.scala:1)"
)

WORKERS: Final = tuple(map(WorkerId, ("w1", "w2", "w3")))
TASKS: Final = (TaskId("a", 0), TaskId("a", 1))
_WANTS: Final = (1, 1, 1, 2, 3)
"""How many slots a task may want."""
_DEFINITION: Final = JobDefinition(
    name="a", entry_point="m:f", max_tasks=2, run_key="r", kind=TaskKind.STREAMING, retries=1_000_000
)


class BrokenError(AssertionError):
    """A rule was broken that must always hold."""


class World:
    """:ivar told: what has happened, to explain a broken rule"""

    def __init__(self, seed: int, loop: VirtualLoop) -> None:
        self.chance = random.Random(seed)
        self.loop = loop
        self.told: list[str] = []
        self.servers = [Server(ConnectServer(host=name)) for name in ("one", "two")]
        self.jobs = JobsSnapshot()
        self._view = StatusView(clock=lambda: 10**9)
        self.snapshots = [self._view.snapshot()]
        self.lives: dict[WorkerId, Life] = {}
        self.owners: dict[TaskId, WorkerId | None] = dict.fromkeys(TASKS)
        self.epoch = 1
        self._numbers = 0
        self._orphans: set[asyncio.Task[Any]] = set()
        self._plan(0)
        for worker in WORKERS:
            self.live(worker)

    # ---- what all workers share

    def server(self, server: ConnectServer) -> Server:
        return next(each for each in self.servers if each.server == server)

    def checkpoint_of(self, task: TaskId) -> str:
        """It is the same for each worker, and for each configuration of the task."""
        return f"checkpoint-{task.index}"

    async def moment(self, *, late: bool = False) -> None:
        """Sleep for a random time.

        :param late: this may be very long
        """
        await asyncio.sleep(self.chance.random() * (30 if late and self.chance.random() < 0.2 else 1))

    def outlives(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run this in the background, even if its process ends."""
        task = asyncio.ensure_future(work)
        self._orphans.add(task)
        return task

    def write(self, status: TaskStatus) -> None:
        """Store a record; it reaches each worker sooner or later."""
        where = "" if status.handle is None else f" {status.handle['session_id']} {status.handle['run_id']}"
        self.say(f"{status.worker} says: {status.task} #{status.attempt} {status.state.value}{where}")
        self._view.apply(task_key(status.task).encode(), status.encoded(), self._view.offset)
        self.snapshots.append(self._view.snapshot())
        for life in self.lives.values():
            late_s = self.chance.random() * (15 if self.chance.random() < 0.3 else 0.5)
            self.loop.call_later(late_s, life.come, len(self.snapshots) - 1)

    @property
    def status(self) -> StatusSnapshot:
        """The status topic with all records."""
        return self.snapshots[-1]

    def _plan(self, number: int) -> None:
        configs: list[Mapping[str, Any]] = [{"i": i, "slots": self.chance.choice(_WANTS)} for i in (0, number)]
        if number:  # another plan with the same first task
            configs[0] = self.jobs.plans["a"].configs[0]
        plan = PlanRecord.of(_DEFINITION, configs, planned_by=WORKERS[0], at_ms=0)
        self.jobs = JobsSnapshot(jobs={"a": _DEFINITION}, plans={"a": plan})
        for life in self.lives.values():
            life.come(0)

    def say(self, what: str) -> None:
        self.told.append(f"{self.loop.now:8.1f} {what}")

    def check(self) -> None:
        """:raises BrokenError: if a rule does not hold that must hold at any time"""
        writers: dict[str, list[str]] = {}
        for server in self.servers:
            for query in server.active.values():
                writers.setdefault(query.checkpoint, []).append(f"{query.run_id} in {query.session_id}")
        for checkpoint, runs in writers.items():
            if len(runs) > 1:
                raise BrokenError(f"never two queries on a checkpoint that can both commit: {checkpoint}: {runs}")
        for last in self.status.tasks.values():
            if last.failures or last.state.final:
                raise BrokenError(f"no task pays for servers, workers and other writers: {last}")

    def starts(self, life: Life, run: TaskRun) -> None:
        """Check that a starting task has the slots that it wants, or all free ones. A worker that has adopted more
        tasks than it has slots starts nothing.

        :raises BrokenError: if it has not
        """
        others = {each.task: each.taken_slots for each in life.execution.runs.values() if each.task != run.task}
        free = SLOTS - sum(others.values())
        if not 0 < run.slots == min(run.work.slots, free):
            raise BrokenError(f"{run.task} is started with {run.slots} slots, and {free} are free beside {others}")

    def nothing_is_left(self) -> str:
        """What is wrong after the group has come to rest: each task must run once, where its record says. Empty:
        nothing.
        """
        for task, owner in self.owners.items():
            last = self.status.tasks.get(task)
            if owner is None or last is None or last.state is not TaskState.RUNNING or last.worker != owner:
                return f"{task} does not run at {owner}: {last}"
            runs = [query for server in self.servers for query in server.active.values()]
            mine = [query.run_id for query in runs if query.checkpoint == self.checkpoint_of(task)]
            if mine != [last.handle["run_id"]]:
                return f"{task}: {mine} runs, and {last.handle} is said to"
        return ""

    # ---- what happens

    def live(self, worker: WorkerId, *, in_triggerer: bool = False) -> Life:
        self._numbers += 1
        own = self.servers[0] if worker != WORKERS[2] else self.servers[1]
        life = self.lives[worker] = Life(self, worker, own, self._numbers, in_triggerer=in_triggerer)
        return life

    def deal(self) -> None:
        """A round: tasks that nobody has are assigned, and some tasks may be revoked."""
        self.epoch += 1
        for task, owner in self.owners.items():
            if owner is None:
                self._give(task, self.chance.choice(WORKERS))
            elif self.chance.random() < 0.15 and self.lives[owner].awake.is_set():
                self.lives[owner].revoke(frozenset({task}))

    def _give(self, task: TaskId, worker: WorkerId) -> None:
        life = self.lives[worker]
        if life.awake.is_set() and not life.dead:
            self.say(f"{task} goes to {worker}")
            self.owners[task] = worker
            life.take(frozenset({task}), Epoch(self.epoch))

    def collect(self) -> None:
        """Note which tasks were released."""
        for task, owner in self.owners.items():
            if owner is not None and task not in self.lives[owner].mine:
                self.owners[task] = None

    def make_room(self) -> None:
        """Revoke tasks that wait for slots which streams have."""
        for task, owner in self.owners.items():
            life = None if owner is None else self.lives[owner]
            run = life and life.execution.runs.get(task)
            if life and run and run.state is RunState.WAITING and life.execution.runs.busy >= SLOTS:
                life.revoke(frozenset({task}))

    def lose(self, worker: WorkerId) -> None:
        """The coordinator takes away the worker's tasks, whatever the worker does."""
        for task, owner in self.owners.items():
            if owner == worker:
                self.owners[task] = None

    async def kill(self) -> None:
        worker = self.chance.choice(WORKERS)
        self.say(f"{worker} is killed")
        await self.lives[worker].end()
        self.lose(worker)
        self.live(worker)

    async def sleep(self) -> None:
        """A process is suspended, and wakes when others have its tasks. Then it notices that its lease is over."""
        worker = self.chance.choice(WORKERS)
        life = self.lives[worker]
        self.say(f"{worker} sleeps")
        life.awake.clear()
        self.lose(worker)
        await asyncio.sleep(self.chance.random() * 20)
        life.wake()
        life.read()
        self.say(f"{worker} wakes")
        await asyncio.sleep(self.chance.random())
        life.revoke(frozenset(life.mine))

    async def hand_over(self) -> None:
        """A membership moves from a process to a triggerer, or back."""
        worker = self.chance.choice(WORKERS)
        life = self.lives[worker]
        if life.dead or not life.awake.is_set() or not life.execution.done(round(self.loop.now * 1000)):
            return
        self.say(f"{worker} goes to its {'process' if life.in_triggerer else 'triggerer'}")
        tasks = frozenset(task for task, owner in self.owners.items() if owner == worker)
        await life.close()
        if self.lives[worker] is life:
            self.live(worker, in_triggerer=not life.in_triggerer).take(tasks, Epoch(self.epoch))

    async def cut_off(self) -> None:
        server = self.chance.choice(self.servers)
        self.say(f"{server.server} is away")
        server.away = True
        await asyncio.sleep(self.chance.random() * 30)
        server.away = False

    async def restart(self) -> None:
        server = self.chance.choice(self.servers)
        if not server.away:
            self.say(f"{server.server} begins anew")
            server.restart()

    async def meddle(self) -> None:
        """A stranger writes to the checkpoint of a running query, which notices that as it commits."""
        running = [(server, session) for server in self.servers for session in server.active if not server.away]
        if running:
            server, session = self.chance.choice(running)
            self.say(f"somebody else writes to the checkpoint of {session}")
            server.end(session, _RACE)

    async def replan(self) -> None:
        self.say("the job is planned otherwise")
        self._plan(self.chance.randrange(1, 100))

    async def close(self) -> None:
        for life in self.lives.values():
            await life.end()
        for work in self._orphans:
            work.cancel()
        await asyncio.gather(*self._orphans, return_exceptions=True)


async def _history(world: World, steps: int) -> None:
    troubles = (world.kill, world.sleep, world.cut_off, world.restart, world.replan, world.meddle)
    for _ in range(steps):
        for _ in range(world.chance.randrange(1, 15)):
            await asyncio.sleep(1)
            world.collect()
            world.deal()
            world.check()
            await world.hand_over()
        trouble = asyncio.ensure_future(world.chance.choice(troubles)())
        while not trouble.done():
            await asyncio.sleep(0.5)
            world.collect()
            world.check()
            if world.chance.random() < 0.2:
                world.deal()
        await trouble
    await _rest(world)


async def _rest(world: World) -> None:
    """From now on nothing goes wrong, so the group must come to rest."""
    for _ in range(600):
        await asyncio.sleep(1)
        world.collect()
        world.check()
        for task, owner in world.owners.items():
            if owner is None:
                world.epoch += 1
                world._give(task, world.chance.choice(WORKERS))
        world.make_room()
        await world.hand_over()
    left = world.nothing_is_left()
    if left:
        raise BrokenError(f"everything comes to rest: {left}")


async def two_workers_begin_the_same_task(world: World) -> None:
    """The group takes the task from the first worker while this begins, and the second worker reads its record late."""
    first, second = world.lives[WORKERS[0]], world.lives[WORKERS[2]]
    task = TASKS[0]
    late, reads_late = second.come, [0]
    second.come = reads_late.append  # type: ignore[method-assign, assignment]  # of one worker only
    first.take(frozenset({task}), Epoch(1))
    while task not in world.status.tasks:  # noqa: ASYNC110  time is virtual
        await asyncio.sleep(0.1)
    second.take(frozenset({task}), Epoch(2))
    while world.status.tasks[task].worker != second.worker:  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    late(max(reads_late))
    second.come = late  # type: ignore[method-assign]
    for _ in range(1_500):
        await asyncio.sleep(0.1)
        second.come(len(world.snapshots) - 1)
        world.check()
    assert [len(server.active) for server in world.servers] == [0, 1], "it has ended there, and runs here"


async def a_task_waits_for_a_server_that_is_away(world: World) -> None:
    """A query runs on a server that nobody can reach, and a worker with another server gets its task twice."""
    first, second = world.lives[WORKERS[0]], world.lives[WORKERS[2]]
    task = TASKS[0]
    away = world.server(first.own.server)
    first.take(frozenset({task}), Epoch(1))
    while not (task in world.status.tasks and away.active):  # noqa: ASYNC110  time is virtual
        await asyncio.sleep(0.1)
    await first.end()
    away.away = True
    for epoch in (2, 3):
        second.take(frozenset({task}), Epoch(epoch))
        for _ in range(600):
            await asyncio.sleep(0.1)
            world.check()
        last = world.status.tasks[task]
        assert (last.state, last.worker) == (TaskState.PENDING, second.worker), f"it waits there: {last}"
        second.revoke(frozenset({task}))
        assert task not in second.mine, "its release does not wait for the server"
    away.away = False
    second.take(frozenset({task}), Epoch(4))
    for _ in range(600):
        await asyncio.sleep(0.1)
        world.check()
    assert [len(server.active) for server in world.servers] == [0, 1], "it has ended there, and runs here"


async def _is_not_said_to_run_while_its_server_is_away(world: World, life: Life, task: TaskId) -> None:
    life.own.away = True
    await asyncio.sleep(120)
    last = world.status.tasks[task]
    assert (last.state, last.error is None) == (TaskState.PENDING, False), f"it is not said to run: {last}"
    life.own.away = False
    await asyncio.sleep(120)
    world.owners = {task: WORKERS[0]}
    assert not world.nothing_is_left(), world.nothing_is_left()


async def a_server_ends_under_a_start(world: World) -> None:
    """The server ends and stays away while an attempt waits to begin: nobody knows whether its query was started."""
    life, task = world.lives[WORKERS[0]], TASKS[0]
    life.take(frozenset({task}), Epoch(1))
    while task not in world.status.tasks:  # noqa: ASYNC110  time is virtual
        await asyncio.sleep(0.01)
    life.own.restart()
    await _is_not_said_to_run_while_its_server_is_away(world, life, task)


async def the_answer_to_a_start_is_lost(world: World) -> None:
    """The query runs, and its worker knows neither that nor its ids until the server is back."""
    life, task = world.lives[WORKERS[0]], TASKS[0]
    life.take(frozenset({task}), Epoch(1))
    while not life.own.starting:  # noqa: ASYNC110  time is virtual
        await asyncio.sleep(0.001)
    await _is_not_said_to_run_while_its_server_is_away(world, life, task)


_LOOK_S: Final = 60
"""Within this time the worker knows what has become of a query, if its server answers."""


def turns_of_a_start(seed: int) -> int:
    """For how many turns of the loop a start goes on, until its query runs and the record says so."""

    async def in_peace(world: World) -> None:
        world.owners = {TASKS[0]: WORKERS[0]}
        world.lives[WORKERS[0]].take(frozenset({TASKS[0]}), Epoch(1))
        while world.nothing_is_left():  # noqa: ASYNC110  time is virtual
            await asyncio.sleep(1)

    return played(seed, in_peace).loop.turns


def a_server_that_ends(*, turn: int, back_s: float, times: int) -> Callable[[World], Coroutine[Any, Any, None]]:
    """The server ends in this turn of a start, again and again 43 s apart.

    :param back_s: how long it is away each time
    """

    async def history(world: World) -> None:
        life, task = world.lives[WORKERS[0]], TASKS[0]
        server, loop = life.own, world.loop

        def end() -> None:
            world.say("the server ends")
            server.restart()
            server.away = back_s > 0
            loop.call_later(back_s, lambda: setattr(server, "away", False))

        loop.at_turn(turn, end)
        for time in range(1, times):
            loop.call_later(43 * time, end)
        world.owners = {task: WORKERS[0]}
        life.take(frozenset({task}), Epoch(1))
        await asyncio.sleep(43 * times)
        unknown_since: float | None = None
        for _ in range(2 * _LOOK_S):
            await asyncio.sleep(1)
            world.check()
            last = world.status.tasks.get(task)
            unknown = last is not None and last.state is TaskState.RUNNING and last.handle["run_id"] is None
            unknown_since = (unknown_since or loop.now) if unknown else None
            if unknown_since is not None and loop.now - unknown_since > _LOOK_S:
                raise BrokenError(f"what is said to run has a query, or is looked for: {last}")
        if left := world.nothing_is_left():
            raise BrokenError(f"it runs again: {left}")

    return history


def play(seed: int, *, steps: int = 12) -> World:
    """Play a random history.

    :raises BrokenError: if a rule is broken; the message tells the story
    """
    return played(seed, lambda world: _history(world, steps))


def played(seed: int, history: Callable[[World], Coroutine[Any, Any, None]]) -> World:
    """Play this history.

    :raises BrokenError: if a rule is broken; the message tells the story
    """
    loop = VirtualLoop()
    asyncio.set_event_loop(loop)
    try:

        async def run() -> World:
            world = World(seed, loop)
            try:
                await history(world)
            except AssertionError as broken:
                story = "\n".join(world.told[-60:])
                raise BrokenError(f"seed {seed}: {broken}\n{story}") from broken
            finally:
                await world.close()
            return world

        return loop.run_until_complete(run())
    finally:
        loop.close()
        asyncio.set_event_loop(None)
