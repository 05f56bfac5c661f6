"""Copies the marked parts of the example DAGs into the pages: ``python docs/sync_examples.py``.

A page names the file and the marker in a comment before a code block::

    <!-- include: airflow_provider/example_dags/example_batch_group.py howto_sensor_job -->
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
_INCLUDE: Final = re.compile(r"(<!-- include: (\S+) (\S+) -->\n```python\n)(.*?)(```\n)", re.DOTALL)


def synced(page: str) -> str:
    """``page`` with what its includes name.

    :raises ValueError: if a file has no such part
    """
    return _INCLUDE.sub(lambda found: f"{found[1]}{part_of(found[2], found[3])}{found[5]}", page)


def part_of(path: str, marker: str) -> str:
    """The lines between ``[START marker]`` and ``[END marker]``, without their indentation and linters' remarks.

    :raises ValueError: if there are none
    """
    source = (ROOT / path).read_text()
    found = re.search(rf"# \[START {marker}\]\n(.*?)[ ]*# \[END {marker}\]", source, re.DOTALL)
    if found is None:
        raise ValueError(f"{path} has no part {marker!r}")
    return re.sub(r"  # noqa\S*.*", "", textwrap.dedent(found[1])).strip() + "\n"


def main() -> None:
    for page in sorted((ROOT / "docs").glob("*.md")):
        page.write_text(synced(page.read_text()))


if __name__ == "__main__":
    main()
