"""``cospark replay``: what the cooperative assignor makes of a recorded history, for whoever explains a rebalance."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from airflow_provider.assignors.balance import above_shares
from airflow_provider.assignors.cooperative import assign
from airflow_provider.assignors.model import (
    Absence,
    GroupAssignment,
    LeaveReason,
    Memory,
    Move,
    MoveReason,
    Round,
    one_by_one,
)
from airflow_provider.assignors.move_reasons import why
from airflow_provider.assignors.policy import Incremental, Policy
from airflow_provider.cli.lines import STDIN, open_lines
from airflow_provider.cli.policies import add_policy_arguments, policy_of
from airflow_provider.cli.terminal import complain, say
from airflow_provider.protocol.model import (
    PLANNER_INDEX,
    GenerationId,
    TaskId,
    Tasks,
    WorkerId,
    tasks_from_json,
    tasks_to_json,
)

LEADER_RESTART: Final = "leader_restart"

_MOST_TASKS: Final = 1_000_000
"""Of all jobs in a line: one number there must not fill the memory."""


class UnreadableLineError(Exception):
    """A line that is no round of a history; says what is wrong with it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Runs the cooperative assignor (KIP-415) through a history of rebalances. One JSON object a line in: now (ms),"
        " generation, last_completed, jobs ({name: number of tasks}; each job also has its planner, index -1), owned"
        f' ({{worker: [[job, index], ...]}}) and optionally event, of which "{LEADER_RESTART}" starts a new leader'
        " before that round, left ({worker: reason}) and returns_ms ({worker: milliseconds; 0: never, null: not known})"
        " of workers that are gone, draining ([worker]) and running ([[job, index], ...]; a worker that drains gives up"
        f" what it does not run). The reasons: {', '.join(LeaveReason)}. Of whom that is said keeps its name when it"
        " comes back; of whom nothing is said is waited for as in Kafka Connect. One JSON object a line out: assigned,"
        " revoked, delay (ms). A line that can't be read gives "
        '{"error": "..."} and changes nothing, and the exit status is 1 in the end.'
    )
    parser.add_argument("file", metavar="FILE", help=f"where the history is; {STDIN} is standard input")
    parser.add_argument("--explain", action="store_true", help="add a sentence for each move")
    add_policy_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Replay every line of ``args.file``, each before the next is read.

    :returns: 0 if every line could be read, 1 if not, 2 if the file can't be opened or the options fit no policy
    """
    try:
        policy = policy_of(args)
        opened = open_lines(args.file)
    except ValueError as wrong:
        complain(f"cospark replay: {wrong}")
        return 2
    except OSError as wrong:
        complain(f"cospark replay: can't read {args.file}: {wrong.strerror}")
        return 2
    status = 0
    memory = Memory()
    named: frozenset[WorkerId] = frozenset()
    with opened as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                restarts, this = parse_line(line)
            except UnreadableLineError as wrong:
                answer: dict[str, Any] = {"error": f"line {number}: {wrong}"}
                status = 1
            else:
                named |= this.named
                this = replace(this, named=named & this.owned.keys())
                decided = assign(this, Memory() if restarts else memory, policy=policy)
                answer = assignment_to_json(decided)
                if args.explain:
                    answer["explain"] = [*explain(this, memory, decided), *held_back(this, decided, policy)]
                memory = decided.memory
            say(json.dumps(answer))
    return status


def parse_line(line: bytes) -> tuple[bool, Round]:
    """Read one line of a history.

    :returns: whether a new leader starts, and the round; ``named`` in it is of whom the line says something
    :raises UnreadableLineError: naming what is wrong
    """
    try:
        return _parse(json.loads(line.rstrip().decode()))
    except RecursionError:
        raise UnreadableLineError("not JSON that can be read: too deeply nested") from None
    except json.JSONDecodeError as wrong:
        raise UnreadableLineError(f"not JSON: {wrong.msg} at column {wrong.colno}") from None
    except ValueError as wrong:
        raise UnreadableLineError(f"not JSON: {wrong}") from None


def _parse(data: object) -> tuple[bool, Round]:
    if not isinstance(data, dict):
        raise UnreadableLineError(f"not a JSON object: {_shown(data)}")
    event = data.get("event")
    if not isinstance(event, str | None):
        raise UnreadableLineError(f"event must be a string, not {_shown(event)}")
    owned = _owned(_object(data, "owned"))
    said = _absences(data)
    this = Round(
        now_ms=_integer(data, "now"),
        generation=GenerationId(_integer(data, "generation")),
        last_completed=GenerationId(_integer(data, "last_completed")),
        configured=_configured(_object(data, "jobs")),
        owned=owned,
        named=frozenset(said),
        absent={worker: absence for worker, absence in said.items() if worker not in owned},
        draining=_draining(data),
        revocation_rank=dict.fromkeys(_running(data), 1),
    )
    return event == LEADER_RESTART, this


def assignment_to_json(decided: GroupAssignment) -> dict[str, Any]:
    return {
        "assigned": {worker: tasks_to_json(tasks) for worker, tasks in sorted(decided.assigned.items())},
        "revoked": {worker: tasks_to_json(tasks) for worker, tasks in sorted(decided.revoked.items())},
        "delay": decided.delay_ms,
    }


def explain(this: Round, memory: Memory, decided: GroupAssignment) -> Iterator[str]:
    """A sentence for each task that moves, and for each worker that is to be back.

    :param memory: of the round before
    """
    for task, move in one_by_one(decided.moves):
        yield f"{_sentence(task, move)}{_why_not_back(this, memory, move)}"
    for worker, end_ms in decided.memory.awaited.items():
        tasks = len(decided.memory.assignment[worker])
        what = "1 task waits" if tasks == 1 else f"{tasks} tasks wait"
        yield f"{what} for {worker}: it is to be back within {(end_ms - this.now_ms) / 1000:g} s"


def _why_not_back(this: Round, memory: Memory, move: Move) -> str:
    """What is known of the worker that has lost the task, and why it is not waited for."""
    if move.reason is not MoveReason.LOST or move.source is None:
        return ""
    absence = this.absent.get(move.source, Absence())
    if absence.left is not None and absence.at_most_ms == 0:
        return f", and has left ({absence.left.value})"
    if absence.at_most_ms == 0:
        return ", and never comes back"
    return ", and was not back in time" if move.source in memory.awaited else ""


def held_back(this: Round, decided: GroupAssignment, policy: Policy) -> Iterator[str]:
    """A sentence about the moves that balance asks for and that a policy of steps leaves for later."""
    left = above_shares(this.configured, decided.target)
    if not isinstance(policy, Incremental) or not left or decided.memory.ends_ms:
        return
    it = "it stays where it is" if left == 1 else "they stay where they are"
    why = f" for {decided.delay_ms / 1000:g} s" if decided.delay_ms else f" (moves in a round: {policy.max_moves})"
    yield f"{left} more would have to stop for everybody to have its share: {it}{why}"


def _sentence(task: TaskId, move: Move) -> str:
    if move.target is None:
        return f"{move.source} stops {task}: {why(move)}"
    again = " again" if move.reason is MoveReason.RETURNED else ""
    return f"{move.target} starts {task}{again}: {why(move)}"


def _configured(jobs: Mapping[str, Any]) -> Tasks:
    for job, number in jobs.items():
        if not _is_integer(number) or number < 0:
            raise UnreadableLineError(
                f"jobs: the number of tasks of {_shown(job)} must be an integer >= 0, not {_shown(number)}"
            )
    if sum(jobs.values()) > _MOST_TASKS:
        raise UnreadableLineError(f"jobs: more than {_MOST_TASKS} tasks")
    return frozenset(TaskId(job, index) for job, number in jobs.items() for index in range(PLANNER_INDEX, number))


def _owned(workers: Mapping[str, Any]) -> dict[WorkerId, Tasks]:
    if not workers:
        raise UnreadableLineError("owned: a round needs at least one worker")
    owned: dict[WorkerId, Tasks] = {}
    for worker, tasks in workers.items():
        if not isinstance(tasks, list):
            raise UnreadableLineError(
                f"owned: {_shown(worker)} must have a list of [job, index] pairs, not {_shown(tasks)}"
            )
        try:
            owned[WorkerId(worker)] = tasks_from_json(tasks)
        except ValueError as wrong:
            raise UnreadableLineError(f"owned: of {_shown(worker)}: {wrong}") from None
    return owned


def _draining(data: Mapping[str, Any]) -> frozenset[WorkerId]:
    workers = data.get("draining", [])
    if not isinstance(workers, list) or not all(isinstance(worker, str) for worker in workers):
        raise UnreadableLineError(f"draining must be a list of workers, not {_shown(workers)}")
    return frozenset(map(WorkerId, workers))


def _running(data: Mapping[str, Any]) -> Tasks:
    tasks = data.get("running", [])
    if not isinstance(tasks, list):
        raise UnreadableLineError(f"running must be a list of [job, index] pairs, not {_shown(tasks)}")
    try:
        return tasks_from_json(tasks)
    except ValueError as wrong:
        raise UnreadableLineError(f"running: {wrong}") from None


def _absences(data: Mapping[str, Any]) -> dict[WorkerId, Absence]:
    left = {worker: _reason(worker, reason) for worker, reason in _optional_object(data, "left").items()}
    returns = _optional_object(data, "returns_ms")
    for worker, returns_ms in returns.items():
        if returns_ms is not None and not (_is_integer(returns_ms) and returns_ms >= 0):
            raise UnreadableLineError(
                f"returns_ms: of {_shown(worker)}: must be an integer >= 0 or null, not {_shown(returns_ms)}"
            )
    return {
        WorkerId(worker): Absence(left=left.get(worker), returns_ms=returns.get(worker))
        for worker in left.keys() | returns.keys()
    }


def _reason(worker: str, reason: object) -> LeaveReason:
    try:
        return LeaveReason(reason)
    except ValueError:
        known = ", ".join(LeaveReason)
        raise UnreadableLineError(f"left: of {_shown(worker)}: must be one of {known}, not {_shown(reason)}") from None


def _optional_object(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    return _object(data, key) if key in data else {}


def _object(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = _required(data, key)
    if not isinstance(value, dict):
        raise UnreadableLineError(f"{key} must be an object, not {_shown(value)}")
    return value


def _integer(data: Mapping[str, Any], key: str) -> int:
    value = _required(data, key)
    if not _is_integer(value):
        raise UnreadableLineError(f"{key} must be an integer, not {_shown(value)}")
    return int(value)


def _required(data: Mapping[str, Any], key: str) -> Any:
    if key not in data:
        raise UnreadableLineError(f"{key} is missing")
    return data[key]


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _shown(value: object) -> str:
    """A value as JSON, cut where it gets long."""
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
