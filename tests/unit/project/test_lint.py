"""A commit is checked by what `make lint` runs, in CI too."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_before_a_commit_the_same_is_run_as_in_ci() -> None:
    recipe = re.search(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    lint = {line.replace("$(BIN)", ".venv/bin").strip() for line in recipe[1].splitlines()}
    hooks = set(re.findall(r"entry: (.*)", (ROOT / ".pre-commit-config.yaml").read_text()))
    check, fix = " --check .", " --fix"
    assert {line.removesuffix(check).removesuffix(" .") for line in lint} == {hook.removesuffix(fix) for hook in hooks}
