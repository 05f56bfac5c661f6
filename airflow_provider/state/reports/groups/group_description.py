"""A group as ``cospark groups describe`` shows it to people: long lists are replaced by counts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from airflow_provider.state.records import TaskFailure, TaskState, WorkerStatus
from airflow_provider.state.records.times import span
from airflow_provider.state.reports.groups.time_zones import PythonTimeZones, TimeZones
from airflow_provider.state.reports.learners import GivenUp, LearnerTask
from airflow_provider.state.rounds.policies import policy_from_json, policy_in_words
from airflow_provider.state.rounds.unchanged_rounds import is_held_back
from airflow_provider.state.views.slots.capacity import SlotShortage

_PLANNER: Final = ":planner"
_MOST_LISTED: Final = 20
"""How many tasks are listed at most, of a worker and of the group; if there are more, they are counted."""


def whose(state: str) -> str:
    """What precedes an error: in any state, a task keeps that of its last attempt that failed or lost its Spark."""
    return "" if state == TaskState.FAILED.value else ", before that"


def as_lines(about: dict[str, Any], *, tasks: bool = False) -> list[str]:
    """Describe a group in lines.

    :param about: what ``cospark groups describe`` has as JSON
    :param tasks: list each task, however many there are
    """
    protocol = f", protocol {about['protocol']}" if about["protocol"] else ""
    lines = [f"group {about['group']}: {about['state']}{protocol}"]
    if about["epoch"] is None:
        lines.append(about["empty"] or "no rebalance has been recorded")
    else:
        converged = "converged" if about["converged"] else "not converged"
        led_by = f", led by {about['leader']}" if about["leader"] else ""
        lines.append(about["empty"] or f"epoch {about['epoch']} ({converged}){led_by}")
        if about["because"]:
            lines.append(f"  because: {about['because']}")
        if is_held_back(about["unchanged"]):
            lines.append(
                f"  the last {about['unchanged']} rebalances changed nothing: each is held back longer than before"
            )
        if about["policy"]:
            lines.append(f"  policy: {policy_in_words(policy_from_json(about['policy']))}")
    if about["short_of_slots"] is not None:
        lines.append(f"  {SlotShortage(**about['short_of_slots']).in_words()}")
    if about["time_zones"] is not None:
        lines.append(f"  {TimeZones(about['time_zones']).in_words()}")
    if about["python_time_zones"] is not None:
        lines.append(f"  {PythonTimeZones(about['python_time_zones']).in_words()}")
    lines += [
        f"  {member['worker']} ({_state(member)}): {_assigned(member['assigned'], about['tasks'])}"
        for member in about["members"]
    ]
    lines += _learners([LearnerTask.from_json(learner) for learner in about["learners"]], all_of_them=tasks)
    lines += _shortened([GivenUp.from_json(one).in_words() for one in about["given_up"]], all_of_them=tasks)
    lines += _listed(about["tasks"]) if tasks or len(about["tasks"]) <= _MOST_LISTED else _counted(about["tasks"])
    if about["jobs"] and not about["tasks"]:
        lines.append(f"  jobs that wait for a worker: {', '.join(about['jobs'])}")
    return lines


def _learners(learners: Sequence[LearnerTask], *, all_of_them: bool) -> Iterator[str]:
    few = learners if all_of_them else learners[:_MOST_LISTED]
    yield from (f"  {learner.in_words()}" for learner in few)
    if len(learners) > len(few):
        ready = sum(learner.ready for learner in learners)
        yield f"  and {len(learners) - len(few)} more are learned; of all {len(learners)}, {ready} are ready"


def _shortened(lines: Sequence[str], *, all_of_them: bool) -> Iterator[str]:
    few = lines if all_of_them else lines[:_MOST_LISTED]
    yield from (f"  {line}" for line in few)
    if len(lines) > len(few):
        yield f"  and {len(lines) - len(few)} more could not be made ready"


def _state(member: Mapping[str, Any]) -> str:
    if member["state"] is None:
        return "no record"
    return state_in_words(member)


def how_it_is(worker: WorkerStatus) -> dict[str, Any]:
    """The state of a worker, in the form that :func:`state_in_words` takes."""
    return {
        "state": worker.state.value,
        "condition": worker.condition,
        "drains": worker.drains,
        "leaves_soon": worker.leaves_soon,
    }


def state_in_words(worker: Mapping[str, Any]) -> str:
    going = ""
    if worker["drains"]:
        going = "drains, because the group learns no tasks" if worker["leaves_soon"] else "drains"
    elif worker["leaves_soon"]:
        going = "leaves soon"
    return ", ".join(filter(None, (worker["state"], going, worker["condition"])))


def _assigned(tasks: Sequence[tuple[str, int]], known: Mapping[str, Any]) -> str:
    names = [f"{job}:{index}" if index >= 0 else f"{job}{_PLANNER}" for job, index in tasks]
    if len(names) > _MOST_LISTED:
        counts = _counts({name: known[name] for name in names if name in known})
        return "; ".join(f"{of_job} of {job}" for job, of_job in counts.items()) or "nothing"
    return ", ".join(names) or "nothing"


def _listed(tasks: Mapping[str, Any]) -> list[str]:
    return [
        f"  task {task}{_name(run)}{_slots(run)}: {run['state']} at {run['worker']}{_server(run)},"
        f" attempt {run['attempt']}{_suspected(run)}{_when(run)}"
        + (f"{whose(run['state'])}: {TaskFailure(message=run['error']).line}" if run["error"] else "")
        for task, run in tasks.items()
    ]


def _name(run: Mapping[str, Any]) -> str:
    return f" ({run['name']})" if run["name"] else ""


def _slots(run: Mapping[str, Any]) -> str:
    return f", {run['slots']} slots" if run["slots"] > 1 else ""


def _server(run: Mapping[str, Any]) -> str:
    return f", detached on {run['server']}" if "server" in run else ""


def _suspected(run: Mapping[str, Any]) -> str:
    """How often Spark or the process has ended while it ran, unless it has stood its trial since."""
    times = run.get("suspected", 0)
    return f", suspected {times} times" if times > 1 else ", suspected once" if times else ""


def _when(run: Mapping[str, Any]) -> str:
    """How long it took or runs, and its progress; see :func:`~airflow_provider.state.reports.task_runs.run_to_json`."""
    if run["waits_for"]:
        return f", {run['waits_for']}"
    if run["state"] == TaskState.UNWATCHED.value:
        return f", {run['progress']}"
    if run["seconds"] is None:
        return ""
    if not TaskState(run["state"]).runs:
        return f", took {span(round(run['seconds'] * 1000))}"
    far = f", {run['progress']}" if "progress" in run else ""
    return f", since {datetime.fromisoformat(run['started_at']):%Y-%m-%d %H:%M:%S} UTC{far}"


def _counted(tasks: Mapping[str, Any]) -> Iterator[str]:
    """The number of tasks of each job in each state, and the first ones that failed."""
    yield from (f"  job {job}: {of_job}" for job, of_job in _counts(tasks).items())
    failed = {task: run for task, run in tasks.items() if run["state"] == TaskState.FAILED.value}
    yield from _listed(dict(list(failed.items())[:_MOST_LISTED]))
    if len(failed) > _MOST_LISTED:
        yield f"  and {len(failed) - _MOST_LISTED} more that failed"
    yield "  (--tasks: a line for each task)"


def _counts(tasks: Mapping[str, Any]) -> dict[str, str]:
    """By job, how many of these tasks are in each state. A planner counts only until it has finished."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    planners: dict[str, str] = {}
    for task, run in tasks.items():
        job = task.rpartition(":")[0]
        if not task.endswith(_PLANNER):
            counts[job][run["state"]] += 1
        elif run["state"] != TaskState.FINISHED.value:
            planners[job] = f"planner {run['state']}"
    words = {job: _in_states(of_job) for job, of_job in counts.items()}
    return words | {job: ", ".join(filter(None, (planner, words.get(job)))) for job, planner in planners.items()}


def _in_states(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[state.value]} {state.value}" for state in TaskState if counts[state.value])
