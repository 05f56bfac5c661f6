"""Draw the diagrams of the docs from the code: ``python docs/make_diagrams.py`` writes ``docs/diagrams/*.mmd``.

They are Mermaid text, which GitHub and most documentation tools render, and which can be read in a diff.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from airflow_provider.membership.member import TRANSITIONS
from airflow_provider.membership.state import Phase

DIAGRAMS = Path(__file__).parent / "diagrams"


def member_states() -> str:
    """The member machine: which events lead from one phase to another. Events that keep the phase are left out."""
    edges: defaultdict[tuple[Phase, Phase], list[str]] = defaultdict(list)
    for phase, rules in TRANSITIONS.items():
        for event, rule in rules.items():
            for after in rule.leads_to - {phase}:
                edges[phase, after].append(event.__name__)
    order = list(Phase)
    lines = [
        "%% Made from membership/member.py by docs/make_diagrams.py; do not edit.",
        "stateDiagram-v2",
        *(f"    {_id(phase)}: {phase.value}" for phase in order),
        f"    [*] --> {_id(Phase.INITIAL)}",
    ]
    for before, after in sorted(edges, key=lambda edge: (order.index(edge[0]), order.index(edge[1]))):
        lines.append(f"    {_id(before)} --> {_id(after)}: {'<br/>'.join(sorted(edges[before, after]))}")
    lines += [f"    {_id(phase)} --> [*]" for phase in order if phase.ended]
    return "\n".join(lines) + "\n"


def _id(phase: Phase) -> str:
    return phase.name.lower()


def main() -> None:
    DIAGRAMS.mkdir(exist_ok=True)
    (DIAGRAMS / "member-states.mmd").write_text(member_states(), encoding="utf-8")


if __name__ == "__main__":
    main()
