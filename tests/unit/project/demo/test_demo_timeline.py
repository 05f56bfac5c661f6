"""The demo's picture: well-formed, and with everything in its place."""

from __future__ import annotations

from xml.etree import ElementTree

from demo_history import A0, A1, FAILED, FINISHED, STARTED, STOPPED, W1, W2, rebalance, step

from airflow_provider.assignment.model import Move, MoveReason
from airflow_provider.state.records import TaskEvent
from airflow_provider.values.model import WorkerId, planner_of
from demo.report import Kill, attempts_of
from demo.timeline import draw

SVG = "{http://www.w3.org/2000/svg}"
KILLS = [Kill(worker=W2, at_ms=9_000)]
ROUNDS = [
    rebalance(2, moves=[Move(tasks=frozenset({A0}), source=W1, target=W2, reason=MoveReason.BALANCE)]).record,
    rebalance(5).record,
]
EVENTS = [
    step(2_000, STARTED),
    step(4_000, STOPPED, began=2_000),
    step(5_000, STARTED, worker=W2, attempt=2),
    step(6_000, STARTED, A1),
    step(7_000, FAILED, A1, began=6_000),
    step(3_000, FINISHED, planner_of("a"), began=2_500),
]


def picture(title: str = "t", events: list[TaskEvent] | None = None, end_ms: int = 12_000) -> ElementTree.Element:
    attempts = attempts_of(EVENTS if events is None else events, KILLS)
    return ElementTree.fromstring(draw(title, attempts, ROUNDS, KILLS, end_ms=end_ms))


def texts(svg: ElementTree.Element) -> list[str]:
    return ["".join(text.itertext()).strip() for text in svg.iter(f"{SVG}text")]


def bars(svg: ElementTree.Element) -> dict[str, ElementTree.Element]:
    found = ((group.findtext(f"{SVG}title"), group.find(f"{SVG}rect")) for group in svg.iter(f"{SVG}g"))
    return {title or "": bar for title, bar in found if bar is not None}


def number(element: ElementTree.Element, name: str) -> float:
    return float(element.attrib[name])


def test_it_is_well_formed_whatever_the_names_are() -> None:
    nasty = WorkerId("w<&\"'>]]>")
    attempts = attempts_of([step(2_000, STARTED, worker=nasty)], [])
    svg = ElementTree.fromstring(draw("a <b> & c", attempts, ROUNDS, [Kill(worker=nasty, at_ms=3_000)], end_ms=9_000))
    assert "a <b> & c" in texts(svg)
    assert nasty in texts(svg)


def test_each_attempt_is_a_bar_in_its_workers_row_as_long_as_it_took() -> None:
    found = bars(picture())
    assert found.keys() == {"a:0, attempt 1: stopped", "a:0, attempt 2: lost", "a:1, attempt 1: failed"}
    first, second = found["a:0, attempt 1: stopped"], found["a:0, attempt 2: lost"]
    assert number(first, "y") < number(second, "y"), "w1 above w2"
    assert number(first, "width") * 2 == number(second, "width"), "2 s and, until the kill, 4 s"
    assert number(first, "x") < number(second, "x")
    assert len({bar.attrib["fill"] for bar in found.values()}) == 3, "a colour for each end"


def test_what_still_runs_reaches_the_right_edge() -> None:
    svg = picture(events=[step(2_000, STARTED)], end_ms=12_000)
    (bar,) = bars(svg).values()
    assert round(number(bar, "x") + number(bar, "width")) == 1_110


def test_each_rebalance_is_a_line_with_its_epoch_and_why() -> None:
    svg = picture()
    lines = [group for group in svg.iter(f"{SVG}g") if group.find(f"{SVG}line") is not None]
    titles = [group.findtext(f"{SVG}title") or "" for group in lines]
    assert titles[0] == "epoch 2: w2 joined\na:0: w1 to w2 (balance)"
    assert {"2", "5"} <= set(texts(svg))


def test_labels_of_rebalances_in_a_row_do_not_cover_each_other() -> None:
    attempts = attempts_of([step(1_000, STARTED)], [])
    close = [rebalance(epoch).record for epoch in (100, 101, 102)]
    svg = ElementTree.fromstring(draw("t", attempts, close, [], end_ms=600_000))
    assert "100-102" in texts(svg)
    assert not {"100", "101", "102"} & set(texts(svg))


def test_a_kill_is_marked_in_its_workers_row() -> None:
    svg = picture()
    (mark,) = (text for text in svg.iter(f"{SVG}text") if text.findtext(f"{SVG}title") == "w2 was killed")
    assert (mark.text or "").strip() == "✕"
    bar = bars(svg)["a:0, attempt 2: lost"]
    assert number(mark, "x") == number(bar, "x") + number(bar, "width")


def test_the_kill_of_a_worker_that_nobody_knows_is_left_out() -> None:
    svg = ElementTree.fromstring(draw("t", (), ROUNDS, [Kill(worker=WorkerId("w9"), at_ms=3_000)], end_ms=9_000))
    assert "w9 was killed" not in "".join(texts(svg))


def test_an_empty_history_is_an_empty_picture() -> None:
    svg = ElementTree.fromstring(draw("nothing", (), (), (), end_ms=0))
    assert "nothing" in texts(svg)
    assert not bars(svg)
