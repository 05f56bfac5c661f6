"""``cospark replay --protocol extensible``: the examples of the proposal of learner tasks, typed in."""

from __future__ import annotations

import argparse
import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.cli.offline import replay

Replay = Callable[..., tuple[int, list[Any]]]

STABLE: dict[str, Any] = {
    "now": 0,
    "generation": 1,
    "last_completed": 0,
    "jobs": {"T": 5},
    "planners": False,
    "owned": {"S1": [["T", 0], ["T", 1]], "S2": [["T", 2], ["T", 3]], "S3": [["T", 4]]},
}
T1, T2, T3, T4, T5 = (["T", index] for index in range(5))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Replay:
    """Replays rounds; returns exit status and answers."""

    def run(*rounds: object, options: str = "") -> tuple[int, list[Any]]:
        text = "\n".join(json.dumps(line) for line in rounds).encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        status = replay.run(parse(f"--protocol extensible {options} -"))
        return status, [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


def parse(arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    replay.add_arguments(parser)
    return parser.parse_args(arguments.split())


def rebalance(number: int, owned: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**STABLE, "generation": number, "last_completed": number - 1, "owned": owned, **more}


def of(answer: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What each member has and learns."""
    assert answer["delay"] == 0
    return {worker: (tasks, answer["learning"][worker]) for worker, tasks in answer["target"].items()}


def test_scale_up(run: Replay) -> None:
    learning = {"S4": [T1], "S5": [T3]}
    status, answers = run(
        rebalance(1, {**STABLE["owned"], "S4": []}),
        rebalance(2, {"S1": [T2], "S2": [T3, T4], "S3": [T5], "S4": [], "S5": []}, learning={"S4": [T1]}),
        rebalance(3, {"S1": [T2], "S2": [T4], "S3": [T5], "S4": [], "S5": []}, learning=learning, ready={"S4": [T1]}),
        rebalance(
            4,
            {"S1": [T2], "S2": [T4], "S3": [T5], "S4": [T1], "S5": []},
            learning={"S5": [T3]},
            ready={"S5": [T3]},
        ),
        options="--learned at-rebalance --explain",
    )
    assert status == 0
    stable: dict[str, tuple[Any, Any]] = {"S1": ([T1, T2], []), "S2": ([T3, T4], []), "S3": ([T5], [])}
    assert [of(answer) for answer in answers] == [
        {**stable, "S4": ([], [T1])},
        {**stable, "S4": ([], [T1]), "S5": ([], [T3])},
        {**stable, "S1": ([T2], []), "S4": ([T1], []), "S5": ([], [T3])},
        {**stable, "S1": ([T2], []), "S2": ([T4], []), "S4": ([T1], []), "S5": ([T3], [])},
    ]
    assert [answer["learned"] for answer in answers] == [
        {"S1": [T1], "S2": [], "S3": [], "S4": []},
        {"S1": [T1], "S2": [T3], "S3": [], "S4": [], "S5": []},
        {"S1": [], "S2": [T3], "S3": [], "S4": [], "S5": []},
        {"S1": [], "S2": [], "S3": [], "S4": [], "S5": []},
    ]
    assert not any(tasks for answer in answers for tasks in answer["revoked"].values())
    assert [answer["explain"] for answer in answers] == [
        ["S4 learns T:0: S1 has 2 tasks, its share is 1"],
        ["S1 starts T:0 again: no learner of it is ready", "S5 learns T:2: S2 has 2 tasks, its share is 1"],
        ["S2 starts T:2 again: no learner of it is ready", "S4 starts T:0: it has learned it from S1"],
        ["S5 starts T:2: it has learned it from S2"],
    ]


@pytest.mark.parametrize("learned", ["at-rebalance", "when-ready"])
def test_scale_down(run: Replay, learned: str) -> None:
    learning = {"S1": [T3], "S3": [T4]}
    _, answers = run(
        rebalance(1, STABLE["owned"], leaving=["S2"]),
        rebalance(
            2,
            {"S1": [T1, T2], "S2": [T3], "S3": [T5]},
            leaving=["S2"],
            learning=learning,
            ready={"S3": [T4]},
        ),
        rebalance(
            3,
            {"S1": [T1, T2], "S2": [], "S3": [T4, T5]},
            leaving=["S2"],
            learning={"S1": [T3]},
            ready={"S1": [T3]},
        ),
        options=f"--learned {learned}",
    )
    assert [of(answer) for answer in answers] == [
        {"S1": ([T1, T2], [T3]), "S2": ([T3, T4], []), "S3": ([T5], [T4])},
        {"S1": ([T1, T2], [T3]), "S2": ([T3], []), "S3": ([T4, T5], [])},
        {"S1": ([T1, T2, T3], []), "S2": ([], []), "S3": ([T4, T5], [])},
    ]
    assert [answer["shutdown"] for answer in answers] == [[], [], ["S2"]]


def test_the_example_in_the_docs(run: Replay) -> None:
    page = (Path(__file__).parents[4] / "docs" / "operating.md").read_text()
    _, _, text = page.partition("<!-- replayed with learners -->")
    history, expected = (
        [json.loads(line) for line in block.splitlines()]
        for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL)[:2]
    )
    assert run(*history, options="--explain") == (0, expected)


@pytest.mark.parametrize(
    ("learned", "why"), [("at-rebalance", "S1 had not stopped it when it joined"), ("when-ready", "S1 did not know")]
)
def test_what_its_owner_still_has_moves_in_two_rounds(run: Replay, learned: str, why: str) -> None:
    ready = {"learning": {"S4": [T1]}, "ready": {"S4": [T1]}}
    _, answers = run(
        rebalance(1, {**STABLE["owned"], "S4": []}),
        rebalance(2, {**STABLE["owned"], "S4": []}, **ready),
        rebalance(3, {**STABLE["owned"], "S1": [T2], "S4": []}, **ready),
        options=f"--explain --learned {learned}",
    )
    assert (answers[1]["revoked"]["S1"], answers[1]["target"]["S4"]) == ([T1], [])
    assert answers[1]["learning"]["S4"] == [T1]
    assert answers[1]["explain"] == [f"S1 stops T:0: another worker is ready for it, and {why}"]
    assert answers[2]["target"]["S4"] == [T1]


def test_stateless_jobs_and_what_does_not_run_move_as_before(run: Replay) -> None:
    first = rebalance(1, {**STABLE["owned"], "S4": []})
    cases: list[dict[str, Any]] = [{"stateful": []}, {"running": [T2, T3, T4, T5]}]
    for more in cases:
        _, answers = run({**first, **more})
        assert sum(map(len, answers[0]["revoked"].values())) == 1
        assert not any(answers[0]["learning"].values())
    _, answers = run({**first, "stateful": []}, options="--explain")
    (explained,) = answers[0]["explain"]
    assert explained == "S2 stops T:3: S2 has 2 tasks, its share is 1"


def test_a_lesson_that_is_not_wanted_any_more(run: Replay) -> None:
    fewer = rebalance(2, {"S1": [T1], "S4": [T2]}, jobs={"T": 2}, learning={"S4": [T1, T5]})
    _, answers = run(rebalance(1, {**STABLE["owned"], "S4": []}), fewer, options="--explain")
    assert answers[1]["explain"] == [
        "S4 no longer learns T:0: the task is no longer to move there",
        "S4 no longer learns T:4: the task is no longer to move there",
    ]


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ({"planners": 0}, "planners must be true or false, not 0"),
        ({"stateful": "T"}, 'stateful must be a list of jobs, not "T"'),
        ({"leaving": [1]}, "leaving must be a list of workers, not [1]"),
        ({"learning": []}, "learning must be an object, not []"),
        ({"ready": {"S4": [["T"]]}}, 'ready: of "S4": a task is a pair [job, index]'),
    ],
)
def test_a_bad_line_is_named(run: Replay, line: dict[str, Any], wrong: str) -> None:
    status, answers = run({**STABLE, **line})
    assert status == 1
    assert answers[0]["error"].startswith(f"line 1: {wrong}")


def test_a_rule_of_owners_means_nothing_without_learners(capsys: pytest.CaptureFixture[str]) -> None:
    assert replay.run(parse("--learned when-ready -")) == 2
    assert capsys.readouterr().err == "cospark replay: --learned: needs --protocol extensible\n"
