"""The diagrams in the docs are what the code says today."""

from __future__ import annotations

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_member_machine_is_drawn_as_it_is() -> None:
    drawn = runpy.run_path(str(DOCS / "make_diagrams.py"))["drawn"]
    page = (DOCS / "protocol.md").read_text(encoding="utf-8")
    assert "stateDiagram-v2" in page
    assert page == drawn(page), "run python docs/make_diagrams.py and commit what it writes"
