# ruff: noqa: E501  # the texts to replace are copied from the code
"""Mistakes with tasks that are learned before they move, and with workers that leave soon or drain."""

from __future__ import annotations

from simulation.mutation import Mutation

_MEMBERSHIP = "airflow_provider.group.classic.member"
_LEARNERS = "airflow_provider.assignment.learners"

_TWO_OWN = "no_two_current_members_own_a_task"
_TWO_RUN = "no_two_copies_run_at_once"
_STARTED = "a_task_is_started_only_after_it_was_stopped_or_its_lease_was_over"
_COMPLETE = "the_target_is_complete_and_without_duplicates"
_REST = "everything_converges"
_CONFIGURED = "learner_tasks_are_configured_and_stateful"
_TWICE = "nothing_learned_is_owned_twice"
_KNOWS = "owners_know_what_others_learn"
_AT_ONCE = "a_lost_owner_whose_learner_is_ready_is_replaced_at_once"
_ONLY_READY = "a_stateful_task_is_stopped_only_for_a_ready_learner"
_NOTHING_NEW = "a_leaving_worker_gets_nothing_new"
_FINISHES = "a_leaving_worker_finishes_its_batch_tasks"
_BACK = "a_task_stopped_for_a_learner_goes_to_it_or_back"
_PLACE = "a_failed_learner_gives_up_its_place"
_OVER = "nobody_starts_over"
_BEFORE = "only_learned_tasks_are_stopped_before_a_round"
_LEFT_OVER = "nothing_is_learned_at_rest"

_LEFT_WHILE = """\
        LearningStopped: to(on_learning_stopped, {}),
        TasksGiven: to(on_given_cold, _GONE),
        TasksRevoked: to(on_dropped, _GONE),
        TopicsRead: to(on_topics, {}"""

LEARNER_MUTATIONS = (
    # ---- the assignor
    Mutation(
        name="lets lost work wait though somebody is ready for it",
        module=f"{_LEARNERS}.under_way",
        edits=(
            (
                "        if (task in created or task in lost)\n",
                "        if (task in created or (task in lost and lost[task] in round.owned))\n",
            ),
        ),
        plan="learners",
        broken=(_AT_ONCE,),
    ),
    Mutation(
        name="gives lost work to anybody though somebody is half warm",
        module=f"{_LEARNERS}.settled",
        edits=(
            (
                "    half_warm = {task: lesson.worker for task, lesson in rest.items() if task in free and not lesson.failed}\n",
                "    half_warm = {task: min(round.staying) for task in rest if task in free}\n",
            ),
        ),
        unit_test="tests/simulation/test_learner_stories.py",
    ),
    Mutation(
        name="has an owner stop for a learner that is not ready",
        module=f"{_LEARNERS}.under_way",
        edits=(
            (
                "        and (is_ready(lesson, limits) or is_in_vain(lesson, round, limits) or task in round.pending)\n    )\n    return Further(",
                "    )\n    return Further(",
            ),
        ),
        plan="learners",
        broken=(_ONLY_READY,),
    ),
    Mutation(
        name="lets a learner that has failed keep its place",
        module=f"{_LEARNERS}.under_way",
        edits=(("    over = lesson.failed or round", "    over = round"),),
        plan="learners",
        broken=(_PLACE,),
        seed=2,
    ),
    Mutation(
        name="forgets who has failed if another worker is further",
        module=f"{_LEARNERS}.stateful",
        edits=(
            (
                " in all_lessons(round, memory, held)\n",
                " in dict(sorted(all_lessons(round, memory, held), key=lambda one: one[1].progress)).items()\n",
            ),
        ),
        plan="at-rebalance",
        broken=(_PLACE,),
        seed=786434328217,
    ),
    Mutation(
        name="keeps what an owner has stopped from it when nobody is ready",
        module=f"{_LEARNERS}.under_way",
        edits=(
            (
                "for task, owner in owners.items() if task not in handed),",
                "for task, owner in owners.items() if task is None),",
            ),
        ),
        plan="at-rebalance",
        broken=(_BACK,),
    ),
    Mutation(
        name="gives a lesson up whenever somebody joins",
        module=f"{_LEARNERS}.under_way",
        edits=(
            (
                "now[owner] < shares[owner] and now[worker] > shares[worker]:",
                "now[owner] <= shares[owner] and now[worker] >= shares[worker]:",
            ),
        ),
        plan="learners",
        broken=(_OVER,),
    ),
    Mutation(
        name="has somebody learn what is not configured",
        module=f"{_LEARNERS}.under_way",
        edits=(
            (
                "round.has_state(task) and task in round.configured and task not in",
                "round.has_state(task) and task not in",
            ),
        ),
        plan="learners",
        broken=(_CONFIGURED,),
        seed=3,
    ),
    Mutation(
        name="has two learn what one learns",
        module=f"{_LEARNERS}.stateful",
        edits=(("    left_alone = plus(round.pending, learned)\n", "    left_alone = round.pending\n"),),
        plan="learners",
        broken=(_TWICE, _KNOWS, _OVER, _CONFIGURED),
        seed=7,
    ),
    Mutation(
        name="gives to those that leave soon as to any other",
        module=f"{_LEARNERS}.model",
        edits=(
            (
                "return super(LearnerRound, self).staying - self.leaving_soon",
                "return super(LearnerRound, self).staying",
            ),
        ),
        plan="learners",
        broken=(_NOTHING_NEW, _COMPLETE, _TWICE, _OVER),
    ),
    Mutation(
        name="has those that leave soon stop their batch tasks",
        module=f"{_LEARNERS}.settled",
        edits=((".with_finishing(round.finished_by_leaving(settled.kept))", ""),),
        plan="learners",
        broken=(_FINISHES,),
    ),
    Mutation(
        name="does not tell an owner what others learn",
        module="airflow_provider.group.classic.leader.extensible_round",
        edits=(("        learned=_packed(decided.learned, worker),\n", ""),),
        plan="learners",
        broken=(_KNOWS,),
    ),
    # ---- the member
    Mutation(
        name="owns what it learns",
        module=f"{_MEMBERSHIP}.learning",
        edits=(
            (
                "    learn(member, assignment.learning.tasks(), assignment.learned.tasks())\n",
                "    member.hold(assignment.learning.tasks() - member.state.owned)\n    learn(member, assignment.learning.tasks(), assignment.learned.tasks())\n",
            ),
        ),
        plan="learners",
        broken=(_TWO_OWN, _TWO_RUN, _STARTED),
    ),
    Mutation(
        name="stops what others learn before anybody is ready",
        module="airflow_provider.values.group_protocol.learned_rule",
        edits=(
            (
                "        return learned if self is LearnedRule.AT_REBALANCE else learned & known_ready\n",
                "        return learned\n",
            ),
        ),
        plan="learners",
        broken=(_BEFORE,),
    ),
    Mutation(
        name="says nothing when it is ready",
        module=f"{_MEMBERSHIP}.learning",
        edits=(
            (
                "    if now_ready := now.ready(ready_from) - before.ready(ready_from):",
                "    if False and (now_ready := now.ready(ready_from) - before.ready(ready_from)):",
            ),
        ),
        plan="learners",
        broken=(_REST,),
        seed=3,
    ),
    Mutation(
        name="learns on what it was told to let go of",
        module=f"{_MEMBERSHIP}.learning",
        edits=(("        member.do(StopLearning(tasks=dropped))\n", "        pass\n"),),
        plan="learners",
        broken=(_LEFT_OVER,),
        seed=2,
    ),
    Mutation(
        name="leaves with what it has only stopped for a learner",
        module=f"{_MEMBERSHIP}.learning",
        edits=(("not member.state.owned and _hears_of_no_round(member):", "not member.state.owned:"),),
        unit_test="tests/unit/group/classic/member/test_member_learning.py",
    ),
    Mutation(
        name="does not say that it has nothing left",
        module=f"{_MEMBERSHIP}.learning",
        edits=(
            (
                "and not member.state.owned:\n        member.do(MayLeave())\n",
                "and not member.state.owned:\n        pass\n",
            ),
            (
                "_hears_of_no_round(member):\n        member.do(MayLeave())\n",
                "_hears_of_no_round(member):\n        pass\n",
            ),
        ),
        plan="learners",
        broken=(_REST,),
    ),
    # ---- around them
    Mutation(
        name="asks for new work to be given though nobody stays",
        module="airflow_provider.group.live.classic.leading",
        edits=((" or nobody_stays(record, status.workers):\n", ":\n"),),
        unit_test="tests/unit/group/live/classic/test_leading.py",
    ),
    Mutation(
        name="counts what is learned where it is",
        module="airflow_provider.state.views.slots.free_slots",
        edits=(("len(tasks & stateful - learned) + len(to_come[worker])", "len(tasks & stateful)"),),
        unit_test="tests/unit/state/views/slots/test_free_slots.py",
    ),
    Mutation(
        name="leaves a slot free while a task with state waits elsewhere",
        module="airflow_provider.state.views.slots.free_slots",
        edits=(("        if self._stateful:\n", "        if False:\n"),),
        unit_test="tests/unit/state/views/slots/test_free_slots.py",
    ),
    Mutation(
        name="leaves a task behind those with state that nobody learns",
        module="airflow_provider.state.views.slots.free_slots",
        edits=((" or staying.lesson_makes_room()", ""),),
        unit_test="tests/unit/state/views/slots/test_free_slots.py",
    ),
    Mutation(
        name="has a running task learned although one that waits could move",
        module="airflow_provider.assignment.learners.excess",
        edits=(("(len(waiting.get(worker, NO_TASKS)) < above[worker], rest.get(worker, 0), worker)", "worker"),),
        unit_test="tests/unit/assignment/learners/test_learner_rules.py",
    ),
    Mutation(
        name="gives a task with state back to the worker that had no slot for it",
        module="airflow_provider.assignment.learners.stateful",
        edits=((", beside=beside)", ")"),),
        unit_test="tests/unit/state/views/slots/test_free_slots.py",
    ),
    Mutation(
        name="keeps what was made ready when it is to let go of it",
        module="airflow_provider.worker.tasks.learning",
        edits=(
            (
                "    if not x.learners.tasks[task].taken:\n        _drop(x, task)\n        x.do(Inform",
                "    if not x.learners.tasks[task].taken:\n        x.do(Inform",
            ),
            (_LEFT_WHILE.format("_GONE", "_WAITING)"), _LEFT_WHILE.format("_WAITING", "_WAITING)")),
            (_LEFT_WHILE.format("_GONE", "_FAILED, "), _LEFT_WHILE.format("_FAILED", "_FAILED, ")),
        ),
        plan="learners",
        broken=(_LEFT_OVER,),
        seed=2,
    ),
    Mutation(
        name="hears of learners before it has begun",
        module="airflow_provider.group.live.classic.classic_member",
        edits=(
            (
                "if self.state.lessons.learned and self.state.phase is not Phase.INITIAL:",
                "if self.state.lessons.learned:",
            ),
        ),
        unit_test="tests/unit/group/live/classic/test_group_driving.py",
    ),
)
