"""Draw the diagrams of the docs from the code: ``python docs/make_diagrams.py`` writes them into their pages.

They are Mermaid text, which GitHub and most documentation tools render, and which can be read in a diff.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from airflow_provider.membership.member import TRANSITIONS
from airflow_provider.membership.state import Phase

PAGE = Path(__file__).parent / "protocol.md"
_PLACE = re.compile(
    r"(<!-- made by docs/make_diagrams.py from membership/member.py -->\n).*?(<!-- end -->\n)", re.DOTALL
)


def drawn(page: str) -> str:
    """``page`` with the diagram as it has to be."""
    return _PLACE.sub(lambda place: f"{place[1]}```mermaid\n{member_states()}```\n{place[2]}", page)


def member_states() -> str:
    """The member machine: which events lead from one phase to another. Events that keep the phase are left out."""
    edges: defaultdict[tuple[Phase, Phase], list[str]] = defaultdict(list)
    for phase, rules in TRANSITIONS.items():
        for event, rule in rules.items():
            for after in rule.leads_to - {phase}:
                edges[phase, after].append(event.__name__)
    order = list(Phase)
    lines = [
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
    PAGE.write_text(drawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
