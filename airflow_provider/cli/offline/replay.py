"""``cospark replay``: explains a rebalance, by running an assignor through a recorded history."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any, Final, NamedTuple, Protocol

from airflow_provider.assignment import cooperative_assignor
from airflow_provider.assignment.learners import extensible_assignor
from airflow_provider.assignment.learners.model import LearnerAssignment, LearnerMemory, Limits
from airflow_provider.assignment.model import GroupAssignment, LeaveReason, Memory
from airflow_provider.assignment.policy import Policy
from airflow_provider.assignment.shares import Shares
from airflow_provider.cli.offline.json_lines import LineAnswer, answer_lines
from airflow_provider.cli.offline.lines import STDIN
from airflow_provider.cli.offline.replay_lines import LEADER_RESTART, parse_learner_line, parse_line
from airflow_provider.cli.shared.policies import add_policy_arguments, policy_of
from airflow_provider.cli.shared.terminal import complain
from airflow_provider.state.reports.replayed_round import explain, explain_learners, held_back
from airflow_provider.values.group_protocol.learned_rule import LearnedRule
from airflow_provider.values.model import WorkerId, tasks_to_json

_COOPERATIVE: Final = "sessioned"
_EXTENSIBLE: Final = "extensible"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run the cooperative assignor (KIP-415) through a history of rebalances. Each input line is one JSON object:"
        " now (ms), generation, last_completed, jobs ({name: number of tasks}; each job also has a planner, index -1,"
        ' unless "planners" is false), owned ({worker: [[job, index], ...]}). Optional keys: left ({worker: reason})'
        " and returns_ms ({worker: milliseconds; 0: never, null: not known}) of missing workers; draining ([worker]);"
        " running ([[job, index], ...]; a worker that drains gives up what it does not run); stays ([[job, index],"
        " ...]; tasks that are not stopped for balance, as running ones are not in a round that is asked for because a"
        f' slot is free); event ("{LEADER_RESTART}" starts a new leader before that round). Reasons:'
        f" {', '.join(LeaveReason)}."
        " A worker with one of these keeps its name when it comes back. If nothing is said of a missing worker, it is"
        " waited for as in Kafka Connect. Each output line is one JSON object: assigned, revoked, delay (ms). A line"
        ' that can\'t be read gives {"error": "..."} and changes nothing, and the exit status is 1. Unknown keys are'
        " named on standard error."
        f" With --protocol {_EXTENSIBLE}, tasks that have state are learned before they move. Input lines may also have"
        " stateful ([job]; default: all), learning, ready and failed ({worker: [[job, index], ...]}) and leaving"
        " ([worker]); owned is what a worker still has when it joins. If running is given, tasks that are not in it are"
        " not learned. Output lines also have target (all tasks of each worker), learning, learned (which of its tasks"
        " others learn) and shutdown ([worker])."
    )
    parser.add_argument("file", metavar="FILE", help=f"the history; {STDIN} is standard input")
    parser.add_argument("--explain", action="store_true", help="add a sentence for each move")
    parser.add_argument(
        "--protocol",
        choices=[_COOPERATIVE, _EXTENSIBLE],
        default=_COOPERATIVE,
        help=f"{_EXTENSIBLE}: with learner tasks (default: %(default)s)",
    )
    parser.add_argument(
        "--learned",
        choices=[rule.value for rule in LearnedRule],
        help=f"{_EXTENSIBLE}: when owners stop tasks that others learn (default: {LearnedRule.WHEN_READY.value}). A"
        " task that is still in owned is stopped in a round of its own",
    )
    add_policy_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Replay every line of ``args.file``, each before the next is read.

    :returns: 0 if every line could be read, 1 if not, 2 if the file can't be opened or the options do not fit
    """
    try:
        leader = _leader_of(args)
    except ValueError as wrong:
        complain(f"cospark replay: {wrong}")
        return 2

    def answer(line: bytes) -> LineAnswer:
        answered = leader.answer(line)
        explained = {"explain": answered.explained} if args.explain else {}
        return LineAnswer({**answered.decided, **explained}, answered.ignored)

    return answer_lines("replay", args.file, answer)


class _Answer(NamedTuple):
    """The answer to a line, the sentences that explain it, and the line's unknown keys."""

    decided: dict[str, Any]
    explained: list[str]
    ignored: frozenset[str]


class _Leader(Protocol):
    """A leader that goes through a history, round by round."""

    def answer(self, line: bytes) -> _Answer:
        """Decide a round.

        :raises UnreadableLineError: naming what is wrong; nothing has changed then
        """


def _leader_of(args: argparse.Namespace) -> _Leader:
    policy = policy_of(args)
    if args.protocol == _EXTENSIBLE:
        return _LearnersLeader(policy, LearnedRule(args.learned or LearnedRule.WHEN_READY))
    if args.learned:
        raise ValueError(f"--learned: needs --protocol {_EXTENSIBLE}")
    return _CooperativeLeader(policy)


class _CooperativeLeader:
    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._memory = Memory()
        self._named: frozenset[WorkerId] = frozenset()

    def answer(self, line: bytes) -> _Answer:
        parsed = parse_line(line)
        self._named |= parsed.round.named
        this = replace(parsed.round, named=self._named & parsed.round.owned.keys())
        before = self._memory
        decided = cooperative_assignor.assign(this, Memory() if parsed.restarts else before, policy=self._policy)
        self._memory = decided.memory
        explained = explain(this, before, decided.moves, decided.memory)
        words = [*explained, *held_back(this, decided, self._policy)]
        return _Answer(assignment_to_json(decided), words, parsed.ignored)


class _LearnersLeader:
    def __init__(self, policy: Policy, rule: LearnedRule) -> None:
        self._policy = policy
        self._rule = rule
        self._limits = Limits()
        self._memory = LearnerMemory()
        self._named: frozenset[WorkerId] = frozenset()

    def answer(self, line: bytes) -> _Answer:
        parsed = parse_learner_line(line)
        self._named |= parsed.round.named
        this = replace(parsed.round, named=self._named & parsed.round.owned.keys())
        before = self._memory
        memory = LearnerMemory() if parsed.restarts else before
        decided = extensible_assignor.assign(this, memory, policy=self._policy, limits=self._limits)
        self._memory = decided.memory
        answer = {
            **assignment_to_json(decided),
            "target": _shares_to_json(decided.target),
            "learning": _shares_to_json(decided.learning),
            "learned": _shares_to_json(decided.learned),
            "shutdown": sorted(decided.shutdown),
        }
        words = list(explain_learners(this, before, decided, self._rule, self._limits))
        return _Answer(answer, words, parsed.ignored)


def assignment_to_json(decided: GroupAssignment | LearnerAssignment) -> dict[str, Any]:
    """The part of an answer that all protocols have."""
    return {
        "assigned": _shares_to_json(decided.assigned),
        "revoked": _shares_to_json(decided.revoked),
        "delay": decided.delay_ms,
    }


def _shares_to_json(shares: Shares) -> dict[str, Any]:
    return {worker: tasks_to_json(tasks) for worker, tasks in sorted(shares.items())}
