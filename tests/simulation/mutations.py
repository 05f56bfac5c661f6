# ruff: noqa: E501  # the texts to replace are copied from the code
"""Mistakes that somebody could make in the machines, the assignor and around them; each must be noticed.

A mutation replaces text of one module. It names what notices it: invariants of the simulation (any of them may fail
first), or a unit test. ``test_mutations`` plays them all.
"""

from __future__ import annotations

from simulation.declarative.mutations import DECLARATIVE_MUTATIONS
from simulation.epoch_mutations import EPOCH_MUTATIONS
from simulation.failure_mutations import FAILURE_MUTATIONS
from simulation.hint_mutations import HINT_MUTATIONS
from simulation.learner_mutations import LEARNER_MUTATIONS
from simulation.mutation import Mutation
from simulation.portion_mutations import PORTION_MUTATIONS

MEMBERSHIP = "airflow_provider.group.classic.member"
MACHINE = "airflow_provider.group.machine"
LEADING = "airflow_provider.group.classic.leader"
ASSIGNORS = "airflow_provider.assignment"
EXECUTION = "airflow_provider.worker.tasks"


_STARTED = "a_task_is_started_only_after_it_was_stopped_or_its_lease_was_over"
_TWO_OWN = "no_two_current_members_own_a_task"
_TWO_RUN = "no_two_copies_run_at_once"
_SUSPECTED = "only_what_was_in_trouble_is_suspected"
_FENCE = "a_fence_raises_for_every_holder_that_is_not_current"
_UNTOUCHED = "untouched_members_stop_only_what_is_revoked"
_COMPLETE = "the_target_is_complete_and_without_duplicates"
_BOTH = "nothing_is_assigned_and_revoked_in_one_round"
_WAIT = "lost_tasks_wait_at_most_the_delay"
_DEADLINE = "the_deadline_survives_leaders"
_NO_BALANCE = "nothing_is_revoked_for_balance_while_a_delay_runs"
_STALE = "a_stale_epoch_never_wins"
_SPREAD = "the_spread_is_at_most_one"
_TOLD = "the_status_topic_tells_what_runs"
_REST = "everything_converges"
_NEVER = "nobody_waits_for_a_worker_that_never_returns"
_BACK = "a_returning_worker_has_its_own_tasks"
_ANEW = "a_replanned_task_stays_put"
_IN_VAIN = "no_leader_asks_for_the_same_again_and_again"

MUTATIONS = (
    # ---- the machine
    Mutation(
        name="joins again before the revoked tasks have stopped",
        module=f"{MEMBERSHIP}.transition",
        edits=(
            (
                "        if not self.state.stopping:\n            self.send_join(",
                "        if True:\n            self.released(self.state.stopping)\n            self.send_join(",
            ),
        ),
        plan="calm",
        broken=(_STARTED, _TWO_OWN, _SUSPECTED),
    ),
    Mutation(
        name="does not stop when its lease is over",
        module=f"{MACHINE}.state",
        edits=(
            ("        if self.lease_until is None or self.owned <= self.held | self.stopping:\n", "        if True:\n"),
        ),
        plan="troubled",
        broken=(_STARTED, _TWO_RUN),
    ),
    Mutation(
        name="takes a lease for as long as a session, whatever its clock does",
        module=f"{MACHINE}.settings",
        edits=(("return ms - ms // _CLOCK_TOLERANCE", "return ms"),),
        plan="wild",
        broken=(_STARTED, _FENCE),
        seed=12,
    ),
    Mutation(
        name="counts a lease from when the answer came",
        module=f"{MEMBERSHIP}.heartbeats",
        edits=(
            (
                "        member.renew_lease(event.sent_at_ms)\n        member.set(attempts=0",
                "        member.renew_lease(member.now)\n        member.set(attempts=0",
            ),
        ),
        unit_test=(
            "tests/unit/group/classic/member/test_member.py"
            "::test_answered_heartbeats_prolong_the_lease_from_when_they_were_sent"
        ),
    ),
    Mutation(
        name="starts what it holds without a lease",
        module=f"{MACHINE}.transition",
        edits=(
            (
                "        if state.lease_until is None or self.now >= state.lease_until - spare_ms:\n            return\n",
                "",
            ),
        ),
        plan="troubled",
        broken=(_STARTED, _TWO_RUN, _UNTOUCHED),
        seed=2,
    ),
    Mutation(
        name="starts under a lease that is nearly over",
        module=f"{MEMBERSHIP}.transition",
        edits=((" + settings.heartbeat_interval_ms // 2", ""),),
        plan="calm",
        broken=(_UNTOUCHED,),
        seed=18,
    ),
    Mutation(
        name="takes the bytes of the last round for news when it comes back",
        module=f"{MEMBERSHIP}.joining",
        edits=(
            ("elif not state.returning or not (protocol.cooperative or state.is_leader):", "else:"),
            ("    else:\n        patience", "    if False:\n        patience"),
        ),
        # In a whole group the leader learns from the worker's own record what it does not have, and assigns it again.
        unit_test="tests/unit/group/classic/member/test_member_static.py",
    ),
    Mutation(
        name="says nothing of what a predecessor may still run",
        module=f"{MEMBERSHIP}.metadata",
        edits=(
            (
                "    worker = state.settings.worker\n",
                "    return NO_TASKS\n    worker = state.settings.worker\n",
            ),
        ),
        plan="troubled",
        broken=(_STARTED, _TWO_RUN),
        seed=321,
    ),
    Mutation(
        name="does not wait for a predecessor's lease",
        module=f"{MEMBERSHIP}.joining",
        edits=(("hold_until=member.now + member.state.settings.session_timeout_ms", "hold_until=member.now"),),
        plan="troubled",
        broken=(_STARTED, _TWO_RUN),
    ),
    Mutation(
        name="does not join again after it has given something up",
        module=f"{MEMBERSHIP}.joining",
        edits=(("    if rejoin or member.state.stopping:\n", "    if False:\n"),),
        plan="calm",
        broken=(_REST,),
        seed=4,
    ),
    Mutation(
        name="does not join again when the delay is over",
        module=f"{MEMBERSHIP}.joining",
        edits=(("    if member.state.told_delay_ms:\n", "    if False:\n"),),
        plan="calm",
        broken=(_REST, _WAIT),
        seed=4,
    ),
    Mutation(
        name="stops everything whenever the group rebalances",
        module=f"{MEMBERSHIP}.transition",
        edits=(
            (
                "        if state.protocol is SubProtocol.DEFAULT:\n            self.stop",
                "        if state.owned:\n            self.stop",
            ),
        ),
        plan="calm",
        broken=(_UNTOUCHED,),
    ),
    Mutation(
        name="leaves before its tasks have stopped",
        module=f"{MEMBERSHIP}.heartbeats",
        edits=(
            (
                "    if state.stopping or member.predecessor_may_run:\n",
                "    if member.predecessor_may_run:\n",
            ),
        ),
        plan="undelayed",
        broken=(_STARTED, _TWO_RUN, _SUSPECTED),
        seed=8,
    ),
    Mutation(
        name="takes answers to another generation's heartbeats for its own",
        module=f"{MEMBERSHIP}.heartbeats",
        edits=(
            (
                "    if (event.member_id, event.generation) != (state.member_id, state.generation):\n        return\n",
                "",
            ),
        ),
        unit_test=(
            "tests/unit/group/classic/member/test_member_coordinator.py"
            "::test_heartbeats_of_another_generation_say_nothing_about_this_one"
        ),
    ),
    Mutation(
        name="starts tasks of whose configuration it has not read",
        module=f"{MACHINE}.transition",
        edits=(("state.config_offset < state.needed_offset or ", ""),),
        unit_test=(
            "tests/unit/group/classic/member/test_member.py"
            "::test_a_member_behind_on_the_jobs_topic_catches_up_before_it_starts_anything"
        ),
    ),
    # ---- the leader and its memory
    Mutation(
        name="assigns though it is behind on the jobs topic",
        module=f"{LEADING}.leader",
        edits=(("    if call.config_offset < furthest:\n", "    if False:\n"),),
        unit_test=(
            "tests/unit/group/classic/leader/test_leader.py::test_a_leader_behind_on_the_jobs_topic_cannot_assign"
        ),
    ),
    Mutation(
        name="forgets the delay when the leader changes",
        module=f"{LEADING}.leader",
        edits=(
            (
                "    if record is None:\n        return Memory()",
                "    if record is None or record.leader_member != call.leader:\n        return Memory()",
            ),
        ),
        plan="calm",
        broken=(_DEADLINE, _BACK),
        seed=32,
    ),
    Mutation(
        name="forgets the delay when a round has failed",
        module=f"{LEADING}.leader",
        edits=(
            ("    if known or max(record.deadline_ms, *record.memory.ends_ms, 0) > call.now_ms:\n", "    if known:\n"),
        ),
        plan="calm",
        broken=(_DEADLINE,),
        seed=11,
    ),
    # ---- the assignor
    Mutation(
        name="balances while a delay runs",
        module=f"{ASSIGNORS}.moving.pace",
        edits=(
            (
                "        return Pace(\n            delay_ms=lost_work.delay_ms,",
                "        return Pace(\n            allowance=NO_LIMIT,\n            delay_ms=lost_work.delay_ms,",
            ),
        ),
        plan="calm",
        broken=(_NO_BALANCE,),
        seed=2,
    ),
    Mutation(
        name="moves what runs for its cost",
        module=f"{ASSIGNORS}.balancing.by_cost",
        edits=(("started = frozenset(costs.left)", "started = NO_TASKS"),),
        plan="skewed",
        broken=("nothing_that_runs_moves_for_its_cost",),
    ),
    Mutation(
        name="never balances",
        module=f"{ASSIGNORS}.moving.pace",
        edits=(
            ("    if not revoked_just_now:\n", "    if False:\n"),
            ("allowance=0 if delay_ms else NO_LIMIT", "allowance=0"),
        ),
        plan="calm",
        broken=(_SPREAD, _REST),
    ),
    Mutation(
        name="does not wait after a round that revoked",
        module=f"{ASSIGNORS}.moving.pace",
        edits=(
            (
                "def backoff_ms(attempts: int, max_delay_ms: int) -> int:\n",
                "def backoff_ms(attempts: int, max_delay_ms: int) -> int:\n    return 0\n\n\ndef _never(attempts: int, max_delay_ms: int) -> int:\n",
            ),
        ),
        unit_test="tests/unit/assignment/test_assignor_cooperative.py",
    ),
    Mutation(
        name="lets both owners of a task keep it",
        module=f"{ASSIGNORS}.cooperative_assignor",
        edits=(
            (
                "duplicated=duplicated, created",
                "duplicated=NO_TASKS, created",
            ),
        ),
        unit_test="tests/unit/assignment/test_assignor_cooperative.py",
    ),
    Mutation(
        name="deals out lost work at once",
        module=f"{ASSIGNORS}.lost",
        edits=(
            (
                "    runs = memory.deadline_ms > 0\n",
                "    return LostWork(as_new=frozenset(lost))\n    runs = memory.deadline_ms > 0\n",
            ),
        ),
        unit_test="tests/unit/group/classic/test_kip_415.py",
    ),
    Mutation(
        name="begins the delay anew with each round",
        module=f"{ASSIGNORS}.lost",
        edits=(("min(memory.deadline_ms - now_ms, max_delay_ms) if runs else max_delay_ms", "max_delay_ms"),),
        plan="calm",
        broken=(_WAIT, _DEADLINE),
        seed=4,
    ),
    Mutation(
        name="loses what was lost when the delay is over",
        module=f"{ASSIGNORS}.lost",
        edits=(
            (
                "    return LostWork(\n        own={worker: lost.get(",
                "    return LostWork(waited=True)\n    return LostWork(\n        own={worker: lost.get(",
            ),
        ),
        plan="calm",
        broken=(_COMPLETE,),
        seed=3,
    ),
    Mutation(
        name="waits for who never comes back",
        module=f"{ASSIGNORS}.lost",
        edits=(("    if at_most_ms == 0:\n", "    if False:\n"), ("if at_most_ms is None or", "if not at_most_ms or")),
        plan="calm",
        broken=(_NEVER, _WAIT),
        seed=2,
    ),
    Mutation(
        name="waits as long for who has said when it is back as for others",
        module=f"{ASSIGNORS}.lost",
        edits=(("(max_delay_ms if at_most_ms is None else min(at_most_ms, max_delay_ms))", "max_delay_ms"),),
        plan="calm",
        broken=(_WAIT,),
    ),
    Mutation(
        name="forgets when it was that somebody should be back",
        module=f"{ASSIGNORS}.lost",
        edits=(("    if worker in memory.awaited:\n", "    if False:\n"),),
        plan="calm",
        broken=(_WAIT, _DEADLINE),
        seed=10,
    ),
    Mutation(
        name="has who is back wait for its own",
        module=f"{ASSIGNORS}.lost",
        edits=(("if worker in kept and worker in round.named}", "if False}"),),
        plan="calm",
        broken=(_BACK,),
    ),
    Mutation(
        name="forgets who had what is planned anew",
        module=f"{ASSIGNORS}.replanned",
        edits=(("    if not created:\n", "    if created:\n"),),
        plan="calm",
        broken=(_ANEW,),
        seed=11,
    ),
    Mutation(
        name="gives what is waited for to others when anybody comes back",
        module=f"{ASSIGNORS}.moving.moves",
        edits=(
            (
                "assignment=_with_waiting(target, lost_work.waiting) if lost_work.waiting else target",
                "assignment=target",
            ),
        ),
        plan="calm",
        broken=(_COMPLETE, _DEADLINE, _BACK),
    ),
    Mutation(
        name="believes what an earlier process of the worker said",
        module="airflow_provider.state.records.status_topic.worker_absence",
        edits=(("if word.epoch >= since or word.member_id == member or", "if True or"),),
        unit_test="tests/unit/group/live/classic/test_leading.py::test_what_it_said_in_an_earlier_life_does_not_count",
    ),
    Mutation(
        name="leaves before it is known why",
        module="airflow_provider.group.live.classic.classic_member",
        edits=(("            await self._listener.farewell()\n", "            pass\n"),),
        unit_test=(
            "tests/unit/worker/endings/test_worker_leaving.py::test_why_it_leaves_is_stored_before_the_coordinator_hears_of_it"
        ),
    ),
    Mutation(
        name="starts its tasks before it has joined the rebalance that a hand-over cut short",
        module=f"{MEMBERSHIP}.joining",
        edits=(
            (
                "phase=Phase.UNJOINED if joins else Phase.STABLE,",
                "phase=Phase.STABLE if known and state.generation >= 0 else Phase.UNJOINED,",
            ),
        ),
        unit_test="tests/unit/group/classic/member/test_member_hand_over.py",
    ),
    Mutation(
        name="loses what is above the share of whoever came back",
        module=f"{ASSIGNORS}.balancing.balance",
        edits=(("        tasks = plus(tasks, self._spare)\n", ""),),
        plan="calm",
        broken=(_COMPLETE,),
        seed=5,
    ),
    # ---- around them
    Mutation(
        name="takes what a fenced process stopped for work that nobody has",
        module="airflow_provider.group.live.classic.leading",
        edits=(
            (
                "if (word.state.final or word.state is TaskState.UNASSIGNED) and not word.kept\n        if word.epoch >= record.epoch and task",
                "if task",
            ),
        ),
        plan="troubled",
        broken=(_IN_VAIN,),
    ),
    Mutation(
        name="counts one slot for each task",
        module="airflow_provider.state.views.slots.costs",
        edits=(("for index, wants in plan.large.items()", "for index, wants in () if plan"),),
        plan="large",
        broken=(_REST,),
    ),
    Mutation(
        name="leaves a slot free while tasks wait elsewhere",
        module="airflow_provider.state.views.slots.free_slots",
        edits=(("FREE_SLOT if helps else None", "None"),),
        unit_test="tests/simulation/test_slots.py",
    ),
    # ---- the executor
    Mutation(
        name="gives a task up before it has stopped",
        module=f"{EXECUTION}.assigned",
        edits=(
            (
                "        x.stop(task, RunState.STOPPING, event.reason)\n",
                "        x.stop(task, RunState.STOPPING, event.reason)\n        x._stopped.add(task)\n",
            ),
        ),
        plan="calm",
        broken=(_STARTED, _TWO_RUN, _SUSPECTED),
    ),
    Mutation(
        name="does not say that a task runs",
        module=f"{EXECUTION}.attempts",
        edits=(
            (
                "otherwise it was told to stop before it began\n        x.write_start(run)\n",
                "otherwise it was told to stop before it began\n        pass\n",
            ),
        ),
        plan="calm",
        broken=(_TOLD,),
    ),
    # ---- the topics
    Mutation(
        name="lets a late record win",
        module="airflow_provider.state.records.status_topic.task_status",
        edits=(
            (
                "        if self.epoch != known.epoch:\n            return self.epoch < known.epoch\n        if not known.is_of",
                "        if not known.is_of",
            ),
        ),
        plan="troubled",
        broken=(_STALE,),
        seed=8,
    ),
    Mutation(
        name="a fence that does not look at the clock",
        module="airflow_provider.worker.lease",
        edits=(("return 0.0 if until is None else until - self._now_ms()", "return 0.0 if until is None else 1.0"),),
        plan="troubled",
        broken=(_FENCE, _TWO_RUN),
        seed=16,
    ),
    *EPOCH_MUTATIONS,
    *FAILURE_MUTATIONS,
    *LEARNER_MUTATIONS,
    *PORTION_MUTATIONS,
    *HINT_MUTATIONS,
    *DECLARATIVE_MUTATIONS,
)
