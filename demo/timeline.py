"""A timeline as SVG, with a row for each worker, a bar for each attempt, and a line for each rebalance. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final
from xml.sax.saxutils import escape

from airflow_provider.state.records import TaskState
from airflow_provider.state.rounds.group_record import GroupRecord
from airflow_provider.state.rounds.move_reasons import one_by_one
from airflow_provider.values.model import WorkerId
from demo.report import LOST, Attempt, Kill

_LEFT: Final = 110
_WIDTH: Final = 1000
_ROW: Final = 34
_FONT: Final = 'font-family="sans-serif" font-size="12"'
_BAR: Final = 22
_TOP: Final = 70
_LABEL: Final = 40
_COLOURS: Final[Mapping[str, str]] = {
    TaskState.FINISHED.value: "#4c9f70",
    TaskState.STOPPED.value: "#e0a458",
    TaskState.FAILED.value: "#c8553d",
    LOST: "#8d8d8d",
}
_OTHER: Final = "#7ea3cc"


def draw(
    title: str, attempts: Sequence[Attempt], rounds: Sequence[GroupRecord], kills: Collection[Kill], *, end_ms: int
) -> str:
    """Draw the picture, as SVG text.

    :param end_ms: wall clock at its right edge
    """
    bars = [attempt for attempt in attempts if not attempt.task.is_planner]
    start_ms = min([attempt.started_at_ms for attempt in attempts] + [record.at_ms for record in rounds], default=0)
    workers = sorted({worker for record in rounds for worker in record.members} | {bar.worker for bar in bars})
    scale = _Scale(start_ms, max(end_ms, start_ms + 1_000))
    bottom = _TOP + _ROW * len(workers)
    rows = {worker: _TOP + _ROW * number for number, worker in enumerate(workers)}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + 20} {bottom + 64}" {_FONT}>',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{_LEFT}" y="20" font-size="15" font-weight="bold">{escape(title)}</text>',
    ]
    for worker, y in rows.items():
        parts += _row(worker, y)
    parts += _axis(scale, bottom)
    parts += _rounds(rounds, scale, bottom)
    parts += [_bar(bar, scale, rows[bar.worker], end_ms) for bar in bars]
    parts += [_kill(kill, scale, rows[kill.worker]) for kill in kills if kill.worker in rows]
    parts += _legend(bottom + 48)
    return "\n".join([*parts, "</svg>", ""])


class _Scale:
    """Converts wall clock to pixels."""

    def __init__(self, start_ms: int, end_ms: int) -> None:
        self.start_ms = start_ms
        self.seconds = (end_ms - start_ms) / 1000
        self._per_ms = _WIDTH / (end_ms - start_ms)

    def x(self, at_ms: float) -> float:
        return round(_LEFT + (at_ms - self.start_ms) * self._per_ms, 1)


def _row(worker: WorkerId, y: int) -> list[str]:
    return [
        f'<text x="{_LEFT - 8}" y="{y + 20}" text-anchor="end">{escape(worker)}</text>',
        f'<line x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{y + _ROW - 2}" y2="{y + _ROW - 2}" stroke="#eee"/>',
    ]


def _axis(scale: _Scale, bottom: int) -> list[str]:
    step = next(step for step in (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 10**6) if scale.seconds / step <= 15)
    ticks = range(0, int(scale.seconds) + 1, step)
    return [
        f'<text x="{scale.x(scale.start_ms + tick * 1000)}" y="{bottom + 18}" text-anchor="middle" fill="#666">'
        f"{tick} s</text>"
        for tick in ticks
    ]


def _rounds(rounds: Sequence[GroupRecord], scale: _Scale, bottom: int) -> list[str]:
    """The lines of the rebalances; those whose labels would overlap share one line."""
    near: list[list[GroupRecord]] = []
    for record in rounds:
        if near and scale.x(record.at_ms) - scale.x(near[-1][-1].at_ms) < _LABEL:
            near[-1].append(record)
        else:
            near.append([record])
    lines = [_round(record, scale.x(record.at_ms), bottom) for record in rounds]
    return lines + [_epochs(some[0], some[-1], scale) for some in near]


def _epochs(first: GroupRecord, last: GroupRecord, scale: _Scale) -> str:
    x = round((scale.x(first.at_ms) + scale.x(last.at_ms)) / 2, 1)
    label = str(first.epoch) if first is last else f"{first.epoch}-{last.epoch}"
    return f'<text x="{x}" y="{_TOP - 18}" text-anchor="middle" font-size="10" fill="#555">{label}</text>'


def _round(record: GroupRecord, x: float, bottom: int) -> str:
    moved = "".join(
        f"\n{task}: {move.source} to {move.target} ({move.reason.value})" for task, move in one_by_one(record.moves)
    )
    return (
        f"<g><title>{escape(f'epoch {record.epoch}: {record.because}{moved}')}</title>"
        f'<line x1="{x}" x2="{x}" y1="{_TOP - 14}" y2="{bottom}" stroke="#555" stroke-dasharray="3 3"/></g>'
    )


def _bar(bar: Attempt, scale: _Scale, y: int, end_ms: int) -> str:
    left, right = scale.x(bar.started_at_ms), scale.x(bar.ended_at_ms or end_ms)
    width = max(2.0, round(right - left, 1))
    label = str(bar.task.index) if width > 14 else ""
    return (
        f"<g><title>{escape(f'{bar.task}, attempt {bar.number}: {bar.end}')}</title>"
        f'<rect x="{left}" y="{y + 4}" width="{width}" height="{_BAR}" rx="3" fill="{_COLOURS.get(bar.end, _OTHER)}"/>'
        f'<text x="{left + width / 2}" y="{y + 20}" text-anchor="middle" fill="white">{label}</text></g>'
    )


def _kill(kill: Kill, scale: _Scale, y: int) -> str:
    x = scale.x(kill.at_ms)
    return (
        f'<text x="{x}" y="{y + 22}" text-anchor="middle" font-size="20" fill="#b00020">'
        f"✕<title>{escape(kill.worker)} was killed</title></text>"
    )


def _legend(y: int) -> list[str]:
    parts, x = [], _LEFT
    for label, colour in (
        ("finished", _COLOURS[TaskState.FINISHED.value]),
        ("stopped, because it moves", _COLOURS[TaskState.STOPPED.value]),
        ("lost with its worker", _COLOURS[LOST]),
        ("failed", _COLOURS[TaskState.FAILED.value]),
    ):
        parts.append(f'<rect x="{x}" y="{y - 11}" width="12" height="12" rx="2" fill="{colour}"/>')
        parts.append(f'<text x="{x + 18}" y="{y}">{label}</text>')
        x += 40 + 7 * len(label)
    parts.append(f'<text x="{x}" y="{y}" fill="#555">┊ a rebalance, with its epoch</text>')
    parts.append(f'<text x="{x + 200}" y="{y}" fill="#b00020">✕ SIGKILL</text>')
    return parts
