"""``cospark reconcile`` as somebody at a terminal sees it."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.cli.main import main

STEP: dict[str, Any] = {
    "target_epoch": 7,
    "target": [["a", 1], ["b", -1]],
    "member": {"epoch": 6, "state": "stable", "assigned": [["b", 10], ["b", 9], ["a", 1]], "revoking": []},
    "owned": [["a", 1], ["b", 9], ["b", 10]],
    "held_by_others": [["b", -1]],
}
STOPS = {"epoch": 6, "state": "unrevoked", "assigned": [["a", 1]], "revoking": [["b", 9], ["b", 10]]}


def reconciled(*lines: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[Any], str]:
    """The exit status, the answers, and what is on standard error."""
    file = tmp_path / "members"
    file.write_text("\n".join(lines))
    status = main(["reconcile", str(file)])
    printed = capsys.readouterr()
    return status, [json.loads(line) for line in printed.out.splitlines()], printed.err


def test_each_line_is_a_step_and_tasks_are_sorted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    waits = {**STEP, "member": STOPS, "owned": [["a", 1]]}
    gets = {**waits, "held_by_others": []}
    answers = reconciled(*map(json.dumps, (STEP, waits)), "", json.dumps(gets), tmp_path=tmp_path, capsys=capsys)
    assert answers == (
        0,
        [
            STOPS,
            {"epoch": 6, "state": "unreleased", "assigned": [["a", 1]], "revoking": []},
            {"epoch": 7, "state": "stable", "assigned": [["a", 1], ["b", -1]], "revoking": []},
        ],
        "",
    )


def test_from_standard_input_a_heartbeat_that_says_nothing_acknowledges_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = json.dumps({**STEP, "member": STOPS, "owned": None})
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(line.encode() + b"\r\n")))
    assert main(["reconcile", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == STOPS


def changed(**fields: Any) -> str:
    return json.dumps({**STEP, **fields})


def member(**fields: Any) -> str:
    return changed(member={**STEP["member"], **fields})


def without(key: str) -> str:
    return json.dumps({name: value for name, value in STEP.items() if name != key})


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("{", "not JSON: Expecting property name enclosed in double quotes at column 2"),
        ("[1]", "not a JSON object: [1]"),
        *((without(key), f"{key} is missing") for key in STEP),
        (changed(target_epoch=-1), "target_epoch must be an integer from 0 to 2147483647, not -1"),
        (changed(target_epoch=2**31), "target_epoch must be an integer from 0 to 2147483647, not 2147483648"),
        (changed(target=[["a"]]), "target: a task is a pair [job, index] with index >= -1, not ['a']"),
        (changed(target=None), "target must be a list of [job, index] pairs, not null"),
        (changed(owned=3), "owned must be a list of [job, index] pairs, not 3"),
        (
            changed(held_by_others=[["a", -2]]),
            "held_by_others: a task is a pair [job, index] with index >= -1, not ['a', -2]",
        ),
        (changed(member=[]), "member must be an object, not []"),
        (changed(member={}), "member: epoch is missing"),
        (member(epoch=True), "member: epoch must be an integer from 0 to 2147483647, not true"),
        (member(state=["stable"]), 'member: state must be one of stable, unrevoked, unreleased, not ["stable"]'),
        (member(state="gone"), 'member: state must be one of stable, unrevoked, unreleased, not "gone"'),
        (member(assigned={}), "member: assigned must be a list of [job, index] pairs, not {}"),
        (member(revoking=[[0, "a"]]), "member: revoking: a task is a pair [job, index] with index >= -1, not [0, 'a']"),
    ],
)
def test_a_bad_line_is_named_with_its_field_and_spoils_no_other(
    line: str, wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = reconciled(json.dumps(STEP), line, json.dumps(STEP), tmp_path=tmp_path, capsys=capsys)
    assert answers == (1, [STOPS, {"error": f"line 2: {wrong}"}, STOPS], "")


def test_a_key_that_means_nothing_is_named_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = json.dumps({**STEP, "targets": [], "member": {**STEP["member"], "epochs": 1}})
    status, answers, complaints = reconciled(line, line, tmp_path=tmp_path, capsys=capsys)
    assert (status, answers) == (0, [STOPS, STOPS])
    assert complaints.splitlines() == [
        "cospark reconcile: line 1: the key 'member.epochs' is unknown, and is ignored",
        "cospark reconcile: line 1: the key 'targets' is unknown, and is ignored",
    ]


def test_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reconcile", str(tmp_path / "none")]) == 2
    assert "none: No such file or directory" in capsys.readouterr().err


def test_the_example_of_the_docs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[4] / "docs" / "operating.md").read_text()
    _, _, text = page.partition("<!-- reconciled -->")
    steps, answers = (block.partition("\n```")[0] for block in text.split("```json\n")[1:3])
    status, said, _ = reconciled(steps, tmp_path=tmp_path, capsys=capsys)
    assert (status, said) == (0, [json.loads(line) for line in answers.splitlines()])
