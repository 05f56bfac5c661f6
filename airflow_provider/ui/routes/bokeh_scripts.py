"""Finds bokeh's scripts, which draw the timeline, in bokeh's wheel, which is an extra."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final

SCRIPTS: Final = ("bokeh.min.js", "bokeh-api.min.js")
HOW_TO_GET_IT: Final = (
    "The timeline is drawn by bokeh, which is not installed where Airflow's API server runs: pip install"
    " 'bokeh>=3.7,<4' there. Everything else on this page works without it."
)


def script(name: str) -> Path | None:
    """The file of one of the scripts; None: it is not installed."""
    found = find_spec("bokeh")
    if found is None or found.origin is None or name not in SCRIPTS:
        return None
    path = Path(found.origin).parent / "server" / "static" / "js" / name
    return path if path.is_file() else None
