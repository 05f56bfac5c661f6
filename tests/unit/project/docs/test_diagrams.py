"""The diagrams in the docs are what the code says today."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[4] / "docs"


@pytest.mark.parametrize(
    ("name", "kind"),
    [("protocol.md", "stateDiagram-v2"), ("architecture.md", "stateDiagram-v2"), ("job-authors.md", "flowchart LR")],
)
def test_the_machines_are_drawn_as_they_are(name: str, kind: str) -> None:
    drawn = runpy.run_path(str(DOCS / "make_diagrams.py"))["drawn"]
    page = (DOCS / name).read_text(encoding="utf-8")
    assert kind in page
    assert page == drawn(page), "run python docs/make_diagrams.py and commit what it writes"
