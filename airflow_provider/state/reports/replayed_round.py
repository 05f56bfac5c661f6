"""Explains a replayed round in sentences: why each task moves, waits, or is learned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from airflow_provider.assignment.balancing.pools import above_shares
from airflow_provider.assignment.learners.model import LearnerAssignment, LearnerMemory, LearnerRound, Limits
from airflow_provider.assignment.model import Absence, GroupAssignment, Memory, Move, MoveReason, Round
from airflow_provider.assignment.policy import Incremental, Policy
from airflow_provider.state.rounds.move_reasons import one_by_one, why
from airflow_provider.values.group_protocol.learned_rule import LearnedRule
from airflow_provider.values.model import NO_TASKS, TaskId, WorkerId

_AGAIN: Final = frozenset({MoveReason.RETURNED, MoveReason.NOT_READY})


def explain(this: Round, before: Memory, moves: Iterable[Move], after: Memory) -> Iterator[str]:
    """A sentence for each task that moves, and for each worker that is waited for.

    :param before: the leader's memory before this round
    :param after: its memory after it
    """
    for task, move in one_by_one(moves):
        yield f"{sentence(task, move)}{_why_not_back(this, before, move)}"
    for worker, end_ms in after.awaited.items():
        tasks = len(after.assignment[worker])
        what = "1 task waits" if tasks == 1 else f"{tasks} tasks wait"
        yield f"{what} for {worker}: it is to be back within {(end_ms - this.now_ms) / 1000:g} s"


def _why_not_back(this: Round, memory: Memory, move: Move) -> str:
    """What is known of the worker that has lost the task, as the reason why it is not waited for."""
    if move.reason is not MoveReason.LOST or move.source is None:
        return ""
    absence = this.absent.get(move.source, Absence())
    if absence.left is not None and absence.at_most_ms == 0:
        return f", and has left ({absence.left.value})"
    if absence.at_most_ms == 0:
        return ", and never comes back"
    return ", and was not back in time" if move.source in memory.awaited else ""


def held_back(this: Round, decided: GroupAssignment, policy: Policy) -> Iterator[str]:
    """A sentence about moves for balance that a policy of steps leaves for later."""
    left = above_shares(this, decided.target)
    if not isinstance(policy, Incremental) or not left or decided.memory.ends_ms:
        return
    it = "it stays where it is" if left == 1 else "they stay where they are"
    why = f" for {decided.delay_ms / 1000:g} s" if decided.delay_ms else f" (moves in a round: {policy.max_moves})"
    yield f"{left} more would have to stop for everybody to have its share: {it}{why}"


def sentence(task: TaskId, move: Move) -> str:
    """Where a task starts or stops, and why."""
    if move.target is None:
        return f"{move.source} stops {task}: {why(move)}"
    again = " again" if move.reason in _AGAIN else ""
    return f"{move.target} starts {task}{again}: {why(move)}"


def lesson_sentence(task: TaskId, move: Move) -> str:
    return f"{move.target} learns {task}: {why(replace(move, target=None))}"  # its owner still has it


def explain_learners(
    this: LearnerRound, before: LearnerMemory, decided: LearnerAssignment, rule: LearnedRule, limits: Limits
) -> Iterator[str]:
    """As :func:`explain`, with a sentence for each lesson that begins or ends."""
    late = [move for move in decided.moves if _is_late(move)]
    others = [move for move in decided.moves if move not in late]
    yield from explain(this, before.cooperative, others, decided.memory.cooperative)
    for task, move in one_by_one(late):
        had = "had not stopped it when it joined" if rule is LearnedRule.AT_REBALANCE else "did not know"
        yield f"{sentence(task, move)}, and {move.source} {had}"
    for task, move in one_by_one(decided.lessons):
        yield lesson_sentence(task, move)
    for worker, lessons in sorted(this.learning.items()):
        ended = lessons.keys() - decided.learning.get(worker, NO_TASKS) - decided.target.get(worker, lessons.keys())
        for task in sorted(ended):
            yield f"{worker} no longer learns {task}: {_why_no_more(worker, task, this, decided, limits)}"


def _is_late(move: Move) -> bool:
    return move.target is None and move.reason is MoveReason.LEARNED


def _why_no_more(worker: WorkerId, task: TaskId, this: LearnerRound, decided: LearnerAssignment, limits: Limits) -> str:
    if task in this.failed.get(worker, NO_TASKS):
        return "its warm-up failed, and the task stays where it is"
    if task in decided.memory.given_up.get(worker, NO_TASKS):
        return f"it has taken longer than {limits.longest_ms / 1000:g} s, and the task stays where it is"
    return "the task is no longer to move there"
