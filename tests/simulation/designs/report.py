"""The report that compares the designs: a table, and a picture of the running tasks over time. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape

from simulation.designs.costs import DESIGNS, HISTORIES, Cost, Design, History
from simulation.designs.learners import LEARNER_DESIGNS, LEARNER_HISTORIES

Costs = Mapping[tuple[str, str], Cost]
"""By the names of history and design."""

_COLUMNS: Final = ("rebalances", "tasks moved", "stops", "task-seconds lost", "most at once", "s to balance")


@dataclass(frozen=True, slots=True)
class Table:
    """One of the page's tables.

    :param name: in the markers before and after it in the page
    """

    name: str
    designs: Sequence[Design]
    histories: Sequence[History]
    columns: Sequence[str]
    figures: Callable[[Cost], tuple[str, ...]]

    @property
    def begin(self) -> str:
        return f"<!-- the {self.name}: written by make compare-designs -->"

    @property
    def end(self) -> str:
        return f"<!-- end of the {self.name} -->"

    def rows(self, costs: Costs) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        """The rows; only the first one of each history has its name."""
        for history in self.histories:
            for number, design in enumerate(self.designs):
                row = self.figures(costs[history.name, design.name])
                yield "" if number else history.name, design.name, row


_LEFT: Final = 190
_TOP: Final = 60
_PANEL: Final = 190
_HEIGHT: Final = 64
_GAP: Final = 22
_FONT: Final = 'font-family="sans-serif" font-size="12"'
_COLOURS: Final = ("#8d8d8d", "#c8553d", "#7ea3cc", "#4c9f70")


def figures(cost: Cost) -> tuple[str, ...]:
    """The table's figures of a cost, in the order of its columns."""
    values = (cost.rebalances, cost.moved, cost.stopped, cost.stopped_s, cost.most_standing, cost.balanced_s)
    return tuple(f"{value:.0f}" for value in values)


def figures_of_learners(cost: Cost) -> tuple[str, ...]:
    """The same for the table of learners."""
    return (*figures(cost), f"{cost.longest_s:.0f}")


POLICIES: Final = Table("comparison", DESIGNS, HISTORIES, _COLUMNS, figures)
LEARNERS: Final = Table(
    "comparison of learners",
    LEARNER_DESIGNS,
    LEARNER_HISTORIES,
    (*_COLUMNS, "longest s of a task"),
    figures_of_learners,
)


def as_text(costs: Costs, table: Table = POLICIES) -> str:
    head = f"{'':34}{'':16}" + "".join(f"{column:>21}" for column in table.columns)
    lines = [head, "-" * len(head)]
    for history, design, row in table.rows(costs):
        lines.append(f"{history:34}{design:16}" + "".join(f"{figure:>21}" for figure in row))
    return "\n".join(lines)


def as_markdown(costs: Costs, table: Table = POLICIES) -> str:
    lines = [f"| | | {' | '.join(table.columns)} |", f"|---|---|{'---:|' * len(table.columns)}"]
    lines += [f"| {history} | {design} | {' | '.join(row)} |" for history, design, row in table.rows(costs)]
    return "\n".join(lines)


def written_into(page: str, costs: Costs, table: Table = POLICIES) -> str:
    """The page with its table replaced by this one.

    :raises ValueError: if the page has no markers
    """
    before, after = page.index(table.begin) + len(table.begin), page.index(table.end)
    return f"{page[:before]}\n{as_markdown(costs, table)}\n{page[after:]}"


def read_from(page: str, table: Table = POLICIES) -> dict[tuple[str, str], tuple[float, ...]]:
    """The figures in the page's table, by the names of history and design."""
    rows = page[page.index(table.begin) + len(table.begin) : page.index(table.end)].strip().splitlines()[2:]
    told: dict[tuple[str, str], tuple[float, ...]] = {}
    history = ""
    for row in rows:
        name, design, *values = (cell.strip() for cell in row.strip("|").split("|"))
        history = name or history
        told[history, design] = tuple(float(value) for value in values)
    return told


def draw(costs: Costs) -> str:
    """An SVG with a row per history and a column per design; each panel shows the running tasks over time."""
    histories = _histories(costs)
    width = _LEFT + len(DESIGNS) * (_PANEL + _GAP)
    height = _TOP + len(histories) * (_HEIGHT + _GAP) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {_FONT}>',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{_LEFT}" y="20" font-size="15" font-weight="bold">Running tasks while it happens</text>',
    ]
    for column, design in enumerate(DESIGNS):
        x = _LEFT + column * (_PANEL + _GAP)
        parts.append(f'<text x="{x}" y="{_TOP - 16}" font-weight="bold">{escape(design.name)}</text>')
    for row, history in enumerate(histories):
        y = _TOP + row * (_HEIGHT + _GAP)
        parts.append(f'<text x="{_LEFT - 14}" y="{y + _HEIGHT / 2:g}" text-anchor="end">{escape(history)}</text>')
        shown = [costs[history, design.name] for design in DESIGNS]
        most = max(number for cost in shown for _, number in cost.running)
        end_ms = max(cost.running[-1][0] for cost in shown) * 1.1 + 5_000
        for column, cost in enumerate(shown):
            x = _LEFT + column * (_PANEL + _GAP)
            parts += _panel(cost, x, y, most=most, end_ms=end_ms, colour=_COLOURS[column])
    return "\n".join([*parts, "</svg>", ""])


def _panel(cost: Cost, x: int, y: int, *, most: int, end_ms: float, colour: str) -> Iterator[str]:
    floor = y + _HEIGHT
    line = "".join(_steps(cost.running, x, floor, most=most, end_ms=end_ms))
    lost = f"{cost.stopped_s:.0f} task-s lost, {cost.most_standing:.0f} at once, {cost.moved:.0f} moved"
    small, end = 'font-size="9"', f"{end_ms / 1000:.0f} s"
    yield f'<rect x="{x}" y="{y}" width="{_PANEL}" height="{_HEIGHT}" fill="#f6f6f6"/>'
    yield f'<path d="M{x} {floor}{line}V{floor}Z" fill="{colour}"/>'
    yield f'<text x="{x}" y="{floor + 12}" {small} fill="#555">{lost}</text>'
    yield f'<text x="{x + _PANEL - 3}" y="{floor - 4}" {small} fill="white" text-anchor="end">{end}</text>'


def _steps(running: Sequence[tuple[int, int]], x: int, floor: int, *, most: int, end_ms: float) -> Iterator[str]:
    """The upper edge of a panel's area, with the last value for each tenth of a pixel."""
    points: dict[float, float] = {}
    for at_ms, number in running:
        points[round(x + at_ms / end_ms * _PANEL, 1)] = round(floor - number / most * _HEIGHT, 1)
    for at, level in points.items():
        yield f"H{at:g}V{level:g}"
    yield f"H{x + _PANEL}"


def _histories(costs: Costs) -> list[str]:
    return [history.name for history in HISTORIES if (history.name, DESIGNS[0].name) in costs]
