"""Random histories of a group: faults for a while, then peace, in which everything must come right."""

from __future__ import annotations

from dataclasses import dataclass

from simulation.world import World

from airflow_provider.membership.events import Predecessor
from airflow_provider.membership.model import ConnectProtocol, TaskId, planner_of
from airflow_provider.membership.policy import Deferred, Policy
from airflow_provider.membership.state import Phase

JOBS = "ABCD"
WORKERS = ("w1", "w2", "w3", "w4", "w5")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What may happen in a history.

    :param namesakes: a second process may take a worker's name. Not in eager groups: there a worker can't say in its
        metadata what the first one still runs.
    """

    actions: int = 12
    between_ms: int = 6_000
    policy: Policy = Deferred(max_delay_ms=20_000)  # noqa: RUF009  # frozen
    lossy: bool = True
    pauses: bool = True
    moves: bool = True
    namesakes: bool = True
    protocols: tuple[ConnectProtocol, ...] = (ConnectProtocol.SESSIONED,)


class History:
    """One history of a group, made from a seed."""

    def __init__(self, seed: int, plan: Plan) -> None:
        self.world = World(seed, policy=plan.policy, stop_ms=(1, 1_200))
        self.rng = self.world.rng
        self.plan = plan
        self._saved: dict[str, dict[str, object]] = {}

    def run(self) -> World:
        world, rng = self.world, self.rng
        if self.plan.lossy:
            faults = world.network.faults
            faults.lose_request, faults.lose_reply = rng.choice([0, 0.02, 0.1]), rng.choice([0, 0.02, 0.1])
            faults.double_reply, faults.late_reply = rng.choice([0, 0.1]), rng.choice([0, 0.05])
            faults.latency_ms = rng.choice([(0, 3), (1, 40), (0, 400)])
        self._configure()
        world.start("w1")
        for _ in range(self.plan.actions):
            world.run(rng.randint(0, self.plan.between_ms))
            self._act()
        self._peace()
        return world

    def _act(self) -> None:
        actions = [self._start, self._start, self._kill, self._bounce, self._leave, self._configure, self._finish]
        actions += [self._hand_over]
        if self.plan.pauses:
            actions += [self._sleep, self._cut_off]
        if self.plan.namesakes:
            actions += [self._replace]
        if self.plan.moves:
            actions += [self._move, self._away, self._forget]
        self.rng.choice(actions)()

    def _someone(self) -> str | None:
        live = sorted(self.world.live)
        return self.rng.choice(live) if live else None

    def _absent(self) -> str | None:
        gone = sorted(set(WORKERS) - self.world.live.keys() - self._saved.keys())
        return self.rng.choice(gone) if gone else None

    def _configure(self) -> None:
        tasks: set[TaskId] = set()
        for job in self.rng.sample(JOBS, self.rng.randint(1, len(JOBS))):
            tasks |= {planner_of(job)} | {TaskId(job, index) for index in range(self.rng.randint(0, 5))}
        self.world.configure(tasks)

    def _finish(self) -> None:
        running = sorted(task for process in self.world.live.values() for task in process.running)
        if running:
            self.world.finish(self.rng.choice(running))

    def _start(self) -> None:
        worker = self._absent()
        if worker is not None:
            self.world.start(worker, protocol=self.rng.choice(self.plan.protocols))

    def _kill(self) -> None:
        worker = self._someone()
        if worker is not None:
            self.world.kill(worker)

    def _bounce(self) -> None:
        """Killed and back within its session."""
        worker = self._someone()
        if worker is not None:
            self.world.kill(worker)
            self.world.run(self.rng.randint(10, 9_000))
            self.world.start(worker, protocol=self.rng.choice(self.plan.protocols))

    def _leave(self) -> None:
        worker = self._someone()
        if worker is not None:
            self.world.leave(worker)

    def _hand_over(self) -> None:
        worker = self._someone()
        if worker is not None and self.world.live[worker].can_hand_over:
            saved = self.world.hand_over(worker)
            self._saved[worker] = saved
            self.world.run(self.rng.choice([100, 2_500, 15_000]))
            del self._saved[worker]
            self.world.go_on(worker, saved)

    def _sleep(self) -> None:
        worker = self._someone()
        if worker is not None:
            self.world.processes[worker].sleep(self.rng.choice([500, 5_000, 30_000]))

    def _cut_off(self) -> None:
        worker = self._someone()
        if worker is not None:
            process = self.world.processes[worker]
            process.cut_off = True
            self.world.note(f"{process.name:8} ---- is cut off")
            self.world.clock.after(self.rng.choice([2_000, 9_000, 30_000]), process.reconnect)

    def _replace(self) -> None:
        """A second process takes the worker's name while the first still runs, cut off or not.

        Not while the first looks for its way into the group: then the older may be the last to take the name.
        """
        worker = self._someone()
        if worker is not None and self.world.live[worker].state.phase is Phase.STABLE:
            self.world.processes[worker].cut_off = self.rng.random() < 0.5
            self.world.start(worker, predecessor=Predecessor.UNKNOWN)

    def _move(self) -> None:
        self.world.note("broker   ---- the coordinator moves")
        self.world.coordinator.move()

    def _away(self) -> None:
        self.world.note("broker   ---- the coordinator is away")
        self.world.coordinator_away = True
        self.world.clock.after(self.rng.choice([1_000, 12_000]), self.world.coordinator_back)

    def _forget(self) -> None:
        """Kafka deletes a group only when it is empty."""
        for worker in list(self.world.live):
            self.world.kill(worker)
        for process in self.world.members:
            process.kill()
        self.world.run_until(lambda: not self.world.coordinator.members, within_ms=600_000)
        self.world.note("broker   ---- the group is deleted")
        self.world.coordinator.forget()

    def _peace(self) -> None:
        """The faults stop; what is running comes to rest."""
        world = self.world
        world.network.faults.stop()
        world.coordinator_back()
        for process in world.everybody:
            process.reconnect()
        world.run(60_000)
        if not world.members:
            world.start("w1")
        world.configure(world.configured | {TaskId("last", 0)})
        world.run_until(lambda: world.settled, within_ms=3 * self.plan.policy.max_delay_ms + 120_000)
