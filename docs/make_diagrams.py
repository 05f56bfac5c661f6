"""Draw the diagrams of the docs from the code: ``python docs/make_diagrams.py`` writes them into their pages.

They are Mermaid text, which GitHub and most documentation tools render, and which can be read in a diff.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Final, get_args

from airflow_provider.group.classic.member import member
from airflow_provider.group.classic.member.state import Phase
from airflow_provider.spark.attempts.blame import (
    Blame,
    NobodyToBlame,
    SparkToBlame,
    TaskToBlame,
    WorkerToBlame,
    WriterToBlame,
)
from airflow_provider.worker.tasks import learning, machine
from airflow_provider.worker.tasks.runs.learners import LearnerState
from airflow_provider.worker.tasks.runs.run_state import RunState

_DOCS = Path(__file__).parent
_PLACE = re.compile(r"(<!-- made by docs/make_diagrams.py from (\S+) -->\n).*?(<!-- end -->\n)", re.DOTALL)
_BLAMED: Final[Mapping[type, tuple[str, str, str]]] = {
    TaskToBlame: (
        "its code raised an error,<br/>or its time limit is over",
        "the task",
        "it uses a retry, after a pause,<br/>elsewhere if a better worker is there",
    ),
    WorkerToBlame: (
        "Spark does not start on this worker,<br/>or its process is at a limit",
        "the worker",
        "the worker stands back,<br/>and others run its tasks",
    ),
    SparkToBlame: (
        "its Spark, server or process<br/>has ended",
        "unknown: each that ran there<br/>is a suspect",
        "all run again; who was there too often<br/>is tried in growing batches",
    ),
    WriterToBlame: (
        "another writer uses<br/>its checkpoint or table",
        "nobody,<br/>or an earlier attempt",
        "it waits for the other writer,<br/>as often as it takes",
    ),
    NobodyToBlame: (
        "a known fault of Spark ended it,<br/>or its server is full",
        "nobody",
        "it is tried again,<br/>less and less often",
    ),
}
"""An attempt ends, because; to blame; then."""
_FAILS: Final[Mapping[type, str]] = {
    TaskToBlame: "no retry is left",
    SparkToBlame: "it ends again, and nothing<br/>else can be the reason",
}
"""When the task fails for good after all."""
_TASK_AFTER_ALL: Final[Mapping[type, str]] = {NobodyToBlame: "more than ten faults<br/>in a row"}
"""When the task is to blame after all."""
_Edge = tuple[Enum | None, str, Enum | None]


def drawn(page: str) -> str:
    """``page`` with each diagram as it has to be."""
    return _PLACE.sub(lambda place: f"{place[1]}```mermaid\n{_DIAGRAMS[place[2]]()}```\n{place[3]}", page)


def member_states() -> str:
    """The member machine: which events lead from one phase to another."""
    rules = ((phase, event, rule) for phase, of_phase in member.TRANSITIONS.items() for event, rule in of_phase.items())
    edges = ((phase, event.__name__, after) for phase, event, rule in rules for after in rule.leads_to)
    ends: list[_Edge] = [(phase, "", None) for phase in Phase if phase.ended]
    return _states(list(Phase), [(None, "", Phase.INITIAL), *edges, *ends])


def task_states() -> str:
    """The executor's machine: which events lead a task from one state to another."""
    rules = (
        (state, event, rule) for state, of_state in machine.TRANSITIONS.items() for event, rule in of_state.items()
    )
    return _states(
        list(RunState), ((state, event.__name__, after) for state, event, rule in rules for after in rule.leads_to)
    )


def learner_states() -> str:
    """The same for learner tasks."""
    rules = (
        (state, event, rule) for state, of_state in learning.TRANSITIONS.items() for event, rule in of_state.items()
    )
    return _states(
        list(LearnerState), ((state, event.__name__, after) for state, event, rule in rules for after in rule.leads_to)
    )


def blame() -> str:
    """Who is to blame for the end of an attempt, and what follows."""
    lines = ["flowchart LR", '    ends(["an attempt ends"])', '    fails(["the task fails for good"])']
    for kind in get_args(Blame):
        because, to_blame, then = _BLAMED[kind]
        name = kind.__name__.removesuffix("ToBlame").lower()
        lines.append(f'    ends -- because --> {name}_ends["{because}"]')
        lines.append(f'    {name}_ends -- to blame --> {name}_blamed{{{{"{to_blame}"}}}}')
        lines.append(f'    {name}_blamed -- then --> {name}_then["{then}"]')
        if kind in _FAILS:
            lines.append(f'    {name}_then -- "{_FAILS[kind]}" --> fails')
        if kind in _TASK_AFTER_ALL:
            lines.append(f'    {name}_then -- "{_TASK_AFTER_ALL[kind]}" --> task_blamed')
    return "\n".join(lines) + "\n"


def _states(order: list[Enum], edges: Iterable[_Edge]) -> str:
    """Events that keep a state are left out."""
    events: defaultdict[tuple[Enum | None, Enum | None], list[str]] = defaultdict(list)
    for before, event, after in edges:
        if before is not after:
            events[before, after].append(event)

    def place(edge: tuple[Enum | None, Enum | None]) -> tuple[int, int]:
        before, after = (-1 if state is None else order.index(state) for state in edge)
        return before, after if after >= 0 else len(order)

    lines = ["stateDiagram-v2", *(f"    {_id(state)}: {state.value}" for state in order)]
    for before, after in sorted(events, key=place):
        said = "<br/>".join(sorted(filter(None, events[before, after])))
        lines.append(f"    {_id(before)} --> {_id(after)}" + (f": {said}" if said else ""))
    return "\n".join(lines) + "\n"


def _id(state: Enum | None) -> str:
    return "[*]" if state is None else state.name.lower()


_DIAGRAMS: dict[str, Callable[[], str]] = {
    "group/classic/member/member.py": member_states,
    "worker/tasks/machine.py": task_states,
    "worker/tasks/learning.py": learner_states,
    "spark/attempts/blame.py": blame,
}
PAGES = (_DOCS / "protocol.md", _DOCS / "architecture.md", _DOCS / "job-authors.md")


def main() -> None:
    for page in PAGES:
        page.write_text(drawn(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
