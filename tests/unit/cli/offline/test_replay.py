"""``cospark replay`` as somebody at a terminal sees it."""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from airflow_provider.cli.offline import replay

Replay = Callable[..., tuple[int, list[Any]]]

FIRST = {"now": 1_000, "generation": 1, "last_completed": -1, "jobs": {"a": 2, "b": 1}, "owned": {"w1": []}}
ALL = [["a", -1], ["a", 0], ["a", 1], ["b", -1], ["b", 0]]
JOINED = {**FIRST, "generation": 2, "last_completed": 1, "owned": {"w1": ALL, "w2": []}}
MOVED = {**JOINED, "generation": 3, "last_completed": 2, "owned": {"w1": [["a", -1], ["a", 0], ["b", 0]], "w2": []}}
SHARED = {"w1": [["a", -1], ["a", 0], ["b", 0]], "w2": [["a", 1], ["b", -1]]}
GONE = {**FIRST, "now": 5_000, "generation": 4, "last_completed": 3, "owned": {"w1": SHARED["w1"]}}
NOTHING = {"assigned": {"w1": []}, "revoked": {"w1": []}, "delay": 0}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Replay:
    """Replays rounds, given as objects or as they stand in the file; returns exit status and answers."""

    def run(*rounds: object, options: str = "") -> tuple[int, list[Any]]:
        lines = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in rounds]
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\n".join(lines))))
        status = replay.run(parse(f"{options} -"))
        return status, [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


def parse(arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    replay.add_arguments(parser)
    return parser.parse_args(arguments.split())


def test_a_history_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "history"
    file.write_text(f"{json.dumps(FIRST)}\n\n{json.dumps(JOINED)}\n{json.dumps(MOVED)}\n")
    assert replay.run(parse(str(file))) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"assigned": {"w1": ALL}, "revoked": {"w1": []}, "delay": 0},
        {"assigned": {"w1": [], "w2": []}, "revoked": {"w1": [["a", 1], ["b", -1]], "w2": []}, "delay": 0},
        {"assigned": {"w1": [], "w2": [["a", 1], ["b", -1]]}, "revoked": {"w1": [], "w2": []}, "delay": 0},
    ]


def test_without_a_standard_input_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert replay.run(parse("-")) == 2
    assert capsys.readouterr().err == "cospark replay: can't read -: Bad file descriptor\n"


def test_a_lost_worker_starts_the_default_delay(run: Replay) -> None:
    status, answers = run(FIRST, {**MOVED, "generation": 2, "last_completed": 1, "owned": SHARED}, GONE)
    assert status == 0
    assert answers[1:] == [
        {"assigned": {"w1": [], "w2": []}, "revoked": {"w1": [], "w2": []}, "delay": 0},
        {**NOTHING, "assigned": {"w1": SHARED["w2"]}},
    ], "the leader's last round is not the last completed one, so it takes nothing for lost"
    settled = {**MOVED, "owned": SHARED}
    _, answers = run({**FIRST, "owned": SHARED}, {**settled, "last_completed": 1}, GONE)
    assert answers[2] == {**NOTHING, "delay": 300_000}


def test_the_maximum_delay_is_an_option(run: Replay) -> None:
    history = ({**FIRST, "owned": SHARED}, {**GONE, "generation": 2, "last_completed": 1})
    assert run(*history, options="--max-delay 1234")[1][1]["delay"] == 1234
    assert run(*history, options="--max-delay 0")[1][1] == {**NOTHING, "assigned": {"w1": SHARED["w2"]}}


def test_a_new_leader_remembers_nothing(run: Replay) -> None:
    gone = {**GONE, "generation": 2, "last_completed": 1, "event": "leader_restart"}
    _, answers = run({**FIRST, "owned": SHARED}, gone)
    assert answers[1] == {**NOTHING, "assigned": {"w1": SHARED["w2"]}}


def test_other_events_are_remarks(run: Replay) -> None:
    assert run({**FIRST, "event": "w1 starts"}) == run(FIRST)


def test_what_stays_is_not_stopped_for_balance(run: Replay) -> None:
    _, answers = run({**JOINED, "stays": ALL})
    assert answers[0]["revoked"] == {"w1": [["b", -1]], "w2": []}, "planners are counted apart, and cost nothing"


def test_a_key_that_means_nothing_is_named_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped one would change the answer, and nobody would know why."""
    file = tmp_path / "history"
    mistyped = {**GONE, "retuns_ms": {"w2": 0}}
    file.write_text("\n".join(json.dumps(line) for line in (FIRST, {**mistyped, "ready": {}}, mistyped)))
    ignored = "is unknown, and is ignored\n"
    for options, said in (
        ("", f"cospark replay: line 2: the key 'ready' {ignored}cospark replay: line 2: the key 'retuns_ms' {ignored}"),
        ("--protocol extensible ", f"cospark replay: line 2: the key 'retuns_ms' {ignored}"),
    ):
        assert replay.run(parse(f"{options}{file}")) == 0
        told = capsys.readouterr()
        assert told.err == said
        assert len(told.out.splitlines()) == 3


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        (b"{", "not JSON: Expecting property name enclosed in double quotes at column 2"),
        (b"\xff", "not JSON: 'utf-8' codec can't decode"),
        (b"[" * 100_000, "not JSON that can be read: too deeply nested"),
        (b"7" * 5_000, "not JSON: Exceeds the limit"),
        ([1], "not a JSON object: [1]"),
        ({"event": 7}, "event must be a string, not 7"),
        ({"now": None}, "now must be an integer, not null"),
        ({"now": 1.5}, "now must be an integer, not 1.5"),
        ({"generation": True}, "generation must be an integer, not true"),
        ({"last_completed": "1"}, 'last_completed must be an integer, not "1"'),
        ({"jobs": []}, "jobs must be an object, not []"),
        ({"jobs": {"a": -1}}, 'jobs: the number of tasks of "a" must be an integer >= 0, not -1'),
        ({"jobs": {"a": 10**12}}, "jobs: more than 1000000 tasks"),
        ({"owned": {}}, "owned: a round needs at least one worker"),
        ({"owned": {"w1": None}}, 'owned: "w1" must have a list of [job, index] pairs, not null'),
        ({"owned": {"w1": [["a"]]}}, "owned: of \"w1\": a task is a pair [job, index] with index >= -1, not ['a']"),
        ({"owned": {"w1": [["a", -2]]}}, 'owned: of "w1": a task is a pair [job, index] with index >= -1'),
        ({"left": []}, "left must be an object, not []"),
        ({"left": {"w2": "bored"}}, 'left: of "w2": must be one of stopped, drained, killed, restarting, not "bored"'),
        ({"returns_ms": 5}, "returns_ms must be an object, not 5"),
        ({"returns_ms": {"w2": -1}}, 'returns_ms: of "w2": must be an integer >= 0 or null, not -1'),
        ({"draining": "w1"}, 'draining must be a list of workers, not "w1"'),
        ({"running": {"w1": []}}, 'running must be a list of [job, index] pairs, not {"w1": []}'),
        ({"running": [["a"]]}, "running: "),
        ({"stays": 1}, "stays must be a list of [job, index] pairs, not 1"),
        ({"returns_ms": {"w2": True}}, 'returns_ms: of "w2": must be an integer >= 0 or null, not true'),
        ({"owned": {"w1": "x" * 100}}, 'owned: "w1" must have a list of [job, index] pairs, not "' + "x" * 36 + "..."),
    ],
)
def test_a_bad_line_is_named_and_changes_nothing(run: Replay, line: object, wrong: str) -> None:
    bad = {**JOINED, **line} if isinstance(line, dict) else line
    status, answers = run(FIRST, bad, JOINED)
    assert status == 1
    assert answers[1].keys() == {"error"}
    assert answers[1]["error"].startswith(f"line 2: {wrong}")
    assert answers[2] == run(FIRST, JOINED)[1][1]


@pytest.mark.parametrize("key", ["now", "generation", "last_completed", "jobs", "owned"])
def test_what_is_missing_is_named(run: Replay, key: str) -> None:
    line = {name: value for name, value in FIRST.items() if name != key}
    assert run(line) == (1, [{"error": f"line 1: {key} is missing"}])


def test_each_move_is_explained(run: Replay) -> None:
    changed = {**JOINED, "generation": 4, "last_completed": 3, "jobs": {"a": 2, "c": 0}, "owned": SHARED}
    _, answers = run(FIRST, JOINED, MOVED, changed, options="--explain")
    assert [answer["explain"] for answer in answers] == [
        [f"w1 starts {task}: nobody had it" for task in ("a:planner", "a:0", "a:1", "b:planner", "b:0")],
        ["w1 stops b:planner: w1 has 2 planners, its share is 1", "w1 stops a:1: w1 has 3 tasks, its share is 2"],
        ["w2 starts a:1: w1 had 3 tasks, its share is 2", "w2 starts b:planner: w1 had 2 planners, its share is 1"],
        [
            "w1 stops b:0: it is no longer configured",
            "w2 stops b:planner: it is no longer configured",
            "w2 starts c:planner: nobody had it",
        ],
    ]


def test_lost_returned_and_doubled_work_is_explained(run: Replay) -> None:
    jobs = {"a": 5}
    three = {"w1": [["a", -1], ["a", 0]], "w2": [["a", 1], ["a", 2]], "w3": [["a", 3], ["a", 4]]}
    base = {**FIRST, "jobs": jobs}
    _, answers = run(
        {**base, "owned": three},
        {**base, "generation": 2, "last_completed": 1, "owned": {"w1": three["w1"]}},
        {**base, "generation": 3, "last_completed": 2, "owned": {"w1": three["w1"], "w2": []}},
        {**base, "now": 301_000, "generation": 4, "last_completed": 3, "owned": {"w1": three["w1"], "w2": []}},
        options="--explain",
    )
    assert answers[3]["explain"] == [
        "w1 starts a:3: w3 no longer has it",
        "w1 starts a:4: w3 no longer has it",
        "w2 starts a:1 again: it had it before",
        "w2 starts a:2 again: it had it before",
    ]
    both = {"w1": [["a", -1], ["a", 0]], "w2": [["a", 0]]}
    _, answers = run(
        {**base, "jobs": {"a": 1}, "owned": both},
        {**base, "jobs": {"a": 1}, "generation": 2, "last_completed": 1, "owned": {"w1": [["a", -1]], "w2": []}},
        options="--explain",
    )
    assert [answer["explain"] for answer in answers] == [
        ["w1 stops a:0: another worker owns it too", "w2 stops a:0: another worker owns it too"],
        ["w1 starts a:0: more than one worker owned it, and all have stopped it"],
    ]


class TestWhatIsSaidOfWorkersThatAreGone:
    """Of two workers with two tasks each w2 goes."""

    OWNED: ClassVar[dict[str, list[Any]]] = {"w1": [["a", -1], ["a", 0], ["a", 1]], "w2": [["a", 2], ["a", 3]]}
    BEFORE: ClassVar = {**FIRST, "jobs": {"a": 4}, "owned": OWNED}
    GONE: ClassVar = {**BEFORE, "now": 2_000, "generation": 2, "last_completed": 1, "owned": {"w1": OWNED["w1"]}}
    LATER: ClassVar = {**GONE, "now": 22_000, "generation": 3, "last_completed": 2}
    BACK: ClassVar = {
        **GONE,
        "now": 9_000,
        "generation": 3,
        "last_completed": 2,
        "owned": {"w1": OWNED["w1"], "w2": []},
    }

    @pytest.mark.parametrize(
        ("said", "why"),
        [
            ({"left": {"w2": "stopped"}}, "has left (stopped)"),
            ({"left": {"w2": "drained"}, "returns_ms": {"w2": 9_000}}, "has left (drained)"),
            ({"returns_ms": {"w2": 0}}, "never comes back"),
            ({"left": {"w2": "restarting"}, "returns_ms": {"w2": 0}}, "has left (restarting)"),
        ],
    )
    def test_who_never_comes_back_is_not_waited_for(self, run: Replay, said: dict[str, Any], why: str) -> None:
        _, answers = run(self.BEFORE, {**self.GONE, **said}, options="--explain")
        assert answers[1] == {
            "assigned": {"w1": [["a", 2], ["a", 3]]},
            "revoked": {"w1": []},
            "delay": 0,
            "explain": [f"w1 starts a:{index}: w2 no longer has it, and {why}" for index in (2, 3)],
        }

    def test_who_is_to_be_back_is_waited_for_until_then(self, run: Replay) -> None:
        gone = {**self.GONE, "left": {"w2": "restarting"}, "returns_ms": {"w2": 20_000}}
        _, answers = run(self.BEFORE, gone, self.LATER, options="--explain")
        assert answers[1]["delay"] == 20_000
        assert answers[1]["explain"] == ["2 tasks wait for w2: it is to be back within 20 s"]
        assert answers[2]["delay"] == 0
        assert answers[2]["explain"] == [
            f"w1 starts a:{index}: w2 no longer has it, and was not back in time" for index in (2, 3)
        ]

    @pytest.mark.parametrize("said", [{"returns_ms": {"w2": 20_000}}, {"returns_ms": {"w2": None}}])
    def test_who_is_back_has_its_own(self, run: Replay, said: dict[str, Any]) -> None:
        _, answers = run(self.BEFORE, {**self.GONE, **said}, self.BACK, options="--explain")
        assert answers[2]["assigned"] == {"w1": [], "w2": self.OWNED["w2"]}
        assert answers[2]["delay"] == 0
        assert answers[2]["explain"] == [f"w2 starts a:{index} again: it had it before" for index in (2, 3)]

    @pytest.mark.parametrize("said", [{}, {"left": {}, "returns_ms": {}}, {"left": {"w3": "stopped"}}])
    def test_of_whom_nothing_is_said_is_waited_for_as_in_kafka_connect(self, run: Replay, said: dict[str, Any]) -> None:
        _, answers = run(self.BEFORE, {**self.GONE, **said}, self.BACK)
        assert [answer["delay"] for answer in answers] == [0, 300_000, 293_000]
        assert answers[2]["assigned"] == {"w1": [], "w2": []}


def test_lost_work_goes_where_there_is_room_and_nobody_is_said_to_be_back(run: Replay) -> None:
    """w3 runs a and leaves, w1 and w2 come with nothing, and w1 is given b while a waits."""
    a, b = [["a", -1], ["a", 0]], [["b", -1], ["b", 0]]
    first = {**FIRST, "jobs": {"a": 1}, "owned": {"w3": a}}
    came = {**first, "now": 2_000, "generation": 2, "last_completed": 1, "owned": {"w1": [], "w2": []}}
    more = {**came, "now": 2_500, "generation": 3, "last_completed": 2, "jobs": {"a": 1, "b": 1}}
    over = {**more, "now": 3_000, "generation": 4, "last_completed": 3, "owned": {"w1": b, "w2": []}}
    _, answers = run(first, came, more, over, options="--max-delay 1000 --explain")
    assert answers[2]["assigned"] == {"w1": b, "w2": []}
    assert answers[3] == {
        "assigned": {"w1": [], "w2": a},
        "revoked": {"w1": [], "w2": []},
        "delay": 0,
        "explain": ["w2 starts a:planner: w3 no longer has it", "w2 starts a:0: w3 no longer has it"],
    }


def test_what_does_not_run_on_a_worker_that_drains_goes_to_another(run: Replay) -> None:
    line = {
        "now": 0,
        "generation": 2,
        "last_completed": 1,
        "jobs": {"a": 2},
        "owned": {"w1": [["a", -1], ["a", 0], ["a", 1]], "w2": []},
        "draining": ["w1"],
        "running": [["a", 0]],
    }
    status, answers = run(line, options="--explain")
    assert answers[0]["revoked"] == {"w1": [["a", -1], ["a", 1]], "w2": []}
    assert "w1 stops a:1: w1 has 2 tasks, its share is 1" in answers[0]["explain"]
    assert status == 0


def test_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "missing"
    assert replay.run(parse(str(missing))) == 2
    assert capsys.readouterr().err == f"cospark replay: can't read {missing}: No such file or directory\n"


@pytest.mark.parametrize("value", ["soon", "1.5"])
def test_a_maximum_delay_that_is_no_number(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(f"--max-delay={value} -")
    assert f"invalid int value: '{value}'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("--max-delay=-1", "--max-delay-ms: -1 must be a whole number from 0"),
        ("--policy incremental", "--max-moves: the policy 'incremental' needs to know"),
        ("--max-moves 3", "--max-moves: does not apply to the policy 'deferred'"),
    ],
)
def test_options_that_make_no_policy(options: str, complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert replay.run(parse(f"{options} -")) == 2
    assert capsys.readouterr().err.startswith(f"cospark replay: {complaint}")


def test_in_steps_and_what_is_held_back(run: Replay) -> None:
    kept = [["a", -1], ["a", 0], ["a", 1], ["b", 0]]
    moved = {**MOVED, "now": 10, "owned": {"w1": kept, "w2": []}}
    later = {**moved, "now": 20, "generation": 4, "last_completed": 3, "owned": {"w1": kept, "w2": [["b", -1]]}}
    over = {**later, "now": 30_010, "generation": 5, "last_completed": 4}
    _, answers = run(FIRST, JOINED, moved, later, over, options="--policy incremental --max-moves 1 --explain")
    assert [answer["delay"] for answer in answers] == [0, 0, 30_000, 29_990, 0]
    assert [answer["revoked"]["w1"] for answer in answers] == [[], [["b", -1]], [], [], [["a", 1]]]
    assert answers[1]["explain"] == [
        "w1 stops b:planner: w1 has 2 planners, its share is 1",
        "1 more would have to stop for everybody to have its share: it stays where it is (moves in a round: 1)",
    ]
    assert answers[2]["explain"] == [
        "w2 starts b:planner: w1 had 2 planners, its share is 1",
        "1 more would have to stop for everybody to have its share: it stays where it is for 30 s",
    ]
    assert answers[4]["explain"] == ["w1 stops a:1: w1 has 3 tasks, its share is 2"]
