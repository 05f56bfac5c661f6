# ruff: noqa: E501  # the texts to replace are copied from the code
"""Mistakes that somebody could make in the machines of declarative groups, and in reconciliation; each must be noticed.

See module ``simulation.mutations``.
"""

from __future__ import annotations

from simulation.mutation import Mutation

COORDINATOR = "airflow_provider.group.declarative.coordinator"
MEMBER = "airflow_provider.group.declarative.member"
RECONCILE = "airflow_provider.group.declarative.protocol.reconcile"

_ONE_WRITES = "at_most_one_may_write_a_task"
_HELD = "a_task_that_may_be_written_is_held"
_TWO_HOLD = "no_two_hold_a_task"
_REPLAY = "the_state_is_what_replaying_gives"
_DONE = "a_member_that_is_done_has_its_target"
_REST = "everything_converges"
_QUIET = "a_group_at_rest_stays_at_rest"
_WELL = "a_healthy_worker_stays_a_member"
_GROW = "epochs_only_grow"
_MOVES = "a_task_moves_with_a_higher_epoch"
_SAYS = "a_heartbeat_says_all_that_runs"
_FAILS = "nobody_fails"
_BOTH = "nothing_is_revoked_and_started_together"
_SHORTLY = "tasks_wait_shortly_for_who_is_not_started"
_OTHERS = "a_member_at_the_target_has_nothing_of_others"

DECLARATIVE_MUTATIONS = (
    # ---- reconciliation
    Mutation(
        name="assigns what others still hold",
        module=RECONCILE,
        edits=(("task for task in missing if task not in held_by_others)", "task for task in missing)"),),
        plan="declarative-calm",
        broken=(_TWO_HOLD, _HELD, _ONE_WRITES),
    ),
    Mutation(
        name="takes tasks for stopped that a heartbeat does not mention",
        module=RECONCILE,
        edits=(
            (
                "    return owned is not None and tasks.isdisjoint(owned)",
                "    return owned is None or tasks.isdisjoint(owned)",
            ),
        ),
        plan="declarative-calm",
        broken=(_HELD, _ONE_WRITES, _WELL),
    ),
    Mutation(
        name="lets a member go on with another target before it has stopped",
        module=RECONCILE,
        edits=(
            (
                "    if current.state is MemberState.UNREVOKED and not _has_stopped(current.revoking, owned):\n        return current\n",
                "",
            ),
        ),
        plan="declarative-calm",
        broken=(_HELD, _ONE_WRITES, _TWO_HOLD),
    ),
    Mutation(
        name="has a member reach the target before it has all of it",
        module=RECONCILE,
        edits=(("epoch=MemberEpoch(target_epoch) if whole else current.epoch,", "epoch=MemberEpoch(target_epoch),"),),
        plan="declarative-calm",
        broken=(_REST, _WELL, _OTHERS),
        seed=6,
    ),
    # ---- the coordinator
    Mutation(
        name="gives away immediately what a fenced member had",
        module=f"{COORDINATOR}.handlers.membership_changes",
        edits=(
            (
                "    _linger(turn, desk, member_id, desk.state.current[member_id].held, last_said)\n",
                "    turn.give(desk, member_id, None)\n",
            ),
        ),
        plan="declarative-members",
        broken=(_HELD, _ONE_WRITES),
        seed=7,
    ),
    Mutation(
        name="takes a static member's tasks for free when it returns as another process",
        module=f"{COORDINATOR}.handlers.membership_changes",
        edits=(("        _linger(turn, desk, former, had.held, None)\n", "        turn.give(desk, former, None)\n"),),
        plan="declarative-members",
        broken=(_HELD, _ONE_WRITES),
    ),
    Mutation(
        name="does not record what a member says as it leaves",
        module=f"{COORDINATOR}.turn",
        edits=(("        said = last_said if state.target.names(former) else None\n", "        said = None\n"),),
        unit_test="tests/unit/group/declarative/coordinator/handlers/test_coordinator_heartbeat.py",
    ),
    Mutation(
        name="ends the lingering of all members when it has loaded",
        module=f"{COORDINATOR}.coordinator",
        edits=(
            (
                "        turn.timers.set(Timer(Kind.LINGERING, state.group_id, member_id), turn.now_ms + session_ms)",
                "        turn.timers.set(Timer(Kind.LINGERING, state.group_id, member_id), turn.now_ms)",
            ),
        ),
        plan="declarative-everything",
        broken=(_HELD, _ONE_WRITES),
        seed=4,
    ),
    Mutation(
        name="gives kept tasks the epoch of the new target",
        module=f"{COORDINATOR}.handlers.answering",
        edits=(
            (
                "        assignment_epoch=current.assignment_epoch,\n",
                "        assignment_epoch=desk.state.target.epoch,\n",
            ),
        ),
        plan="declarative-everything",
        broken=(_MOVES,),
        seed=2,
    ),
    Mutation(
        name="gives members no fresh session when it has loaded",
        module=f"{COORDINATOR}.coordinator",
        edits=(
            (
                "        turn.timers.set(Timer(Kind.SESSION, state.group_id, member_id), turn.now_ms + session_ms)\n",
                "        turn.timers.set(Timer(Kind.SESSION, state.group_id, member_id), turn.now_ms)\n",
            ),
        ),
        plan="declarative-coordinators",
        broken=(_WELL, _HELD, _ONE_WRITES),
    ),
    Mutation(
        name="asks no member for an assignment when it has loaded",
        module=f"{COORDINATOR}.coordinator",
        edits=(
            (
                "    computing.set_due_timer(turn, desk)\n    computing.ensure_target(turn, desk)\n",
                "    computing.set_due_timer(turn, desk)\n",
            ),
        ),
        plan="declarative-coordinators",
        broken=(_REST,),
    ),
    Mutation(
        name="cuts a granted session short when a shorter one is set",
        module=f"{COORDINATOR}.turn",
        edits=(
            ("max(from_ms + self.session_ms(desk), self.timers.at(timer) or 0)", "from_ms + self.session_ms(desk)"),
        ),
        unit_test="tests/unit/group/declarative/coordinator/test_coordinator_sessions.py",
    ),
    Mutation(
        name="loses a longer granted session with its coordinator",
        module=f"{COORDINATOR}.handlers.configuring",
        edits=(("granted if is_shorter else 0", "0 if is_shorter else 0"),),
        unit_test="tests/unit/group/declarative/coordinator/test_coordinator_sessions.py",
    ),
    Mutation(
        name="asks for no other assignment when an assignor has failed",
        module=f"{COORDINATOR}.handlers.computing",
        edits=(("    if state.target.error:\n", "    if state.target.error < 0:\n"),),
        plan="declarative-members",
        broken=(_REST,),
    ),
    Mutation(
        name="changes the state without a record",
        module=f"{COORDINATOR}.turn",
        edits=(
            (
                "        desk.state.apply(record)\n        self._records.append(record)\n",
                "        desk.state.apply(record)\n        if record.value is not None:\n            self._records.append(record)\n",
            ),
        ),
        plan="declarative-calm",
        broken=(_REPLAY, _DONE, _TWO_HOLD, _HELD),
    ),
    Mutation(
        name="takes a heartbeat with only changes for a first one",
        module=f"{COORDINATOR}.handlers.validation",
        edits=(
            (
                "    return request.connectors_and_tasks is not None and not (\n",
                "    return request.connectors_and_tasks is not None or not (\n",
            ),
        ),
        plan="declarative-everything",
        broken=(_FAILS,),
    ),
    # ---- the member
    Mutation(
        name="does not stop when the lease of its declarative membership is over",
        module=f"{MEMBER}.transition",
        edits=(
            (
                "self.lease_from(sent_at_ms, by_a_slower_clock(self.state.session_timeout_ms))",
                "self.now + 2 * self.state.session_timeout_ms",
            ),
        ),
        plan="declarative-members",
        broken=(_HELD, _ONE_WRITES),
    ),
    Mutation(
        name="reports tasks as released while it still stops them",
        module=f"{MEMBER}.answers",
        edits=(
            (
                "    if revoked:\n        member.set(acknowledges=True)\n",
                "    if revoked:\n        member.set(acknowledges=True, owned=member.state.owned - revoked, stopping=member.state.stopping - revoked)\n",
            ),
        ),
        plan="declarative-calm",
        broken=(_SAYS, _HELD, _ONE_WRITES),
    ),
    Mutation(
        name="does not report that all tasks have stopped",
        module=f"{MEMBER}.heartbeats",
        edits=(
            (
                "    member.stopped(event.tasks)\n    member.start_held()\n    member.acknowledge()\n    member.join_when_stopped()\n",
                "    member.start_held()\n    member.acknowledge()\n",
            ),
        ),
        plan="declarative-calm",
        broken=(_REST, _WELL),
    ),
    Mutation(
        name="does not take a task back that is assigned to it again",
        module=f"{MEMBER}.heartbeats",
        edits=(
            ("    member.set(dropped=state.dropped | event.tasks & state.assigned - state.owned)\n", "    del state\n"),
        ),
        unit_test="tests/unit/group/declarative/member/test_declarative_member.py",
    ),
    Mutation(
        name="writes in its own epoch instead of its target's",
        module=f"{MEMBER}.answers",
        edits=(
            (
                "    epoch = max(assignment.assignment_epoch, event.reply.member_epoch, state.assignment_epoch)\n",
                "    epoch = max(event.reply.member_epoch, state.assignment_epoch)\n",
            ),
        ),
        plan="declarative-calm",
        broken=(_MOVES,),
    ),
    # ---- the assignor
    Mutation(
        name="does not look at what a member that Airflow does not start has written",
        module="airflow_provider.group.declarative.assignors.facts",
        edits=(("group.absent.get(member) or _absence(gone)", "_absence(gone)"),),
        plan="declarative-airflow",
        broken=(_SHORTLY,),
    ),
    Mutation(
        name="waits as long as before for who was back since the last target, and has said that it returns sooner",
        module="airflow_provider.assignment.lost",
        edits=(("(worker not in memory.members and latest_ms >= memory.deadline_ms)", "worker not in memory.members"),),
        plan="declarative-airflow",
        broken=(_SHORTLY,),
        seed=266568093065,
    ),
)
