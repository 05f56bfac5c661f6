"""How large the parts of the house may be, so that each can be read at a sitting, how files of tests are named, and the
order of the houses as it is drawn; and that unit tests stand where the code stands.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[3]
MOST_LINES_OF_A_MODULE: Final = 500
MOST_LINES_OF_A_ROOM: Final = 3_000
MOST_ENTRIES_OF_A_ROOM: Final = 14
EXAMPLES: Final = "example_dags"
"""Each is named after what it shows, and found by that."""
PACKAGE: Final = ROOT / "airflow_provider"
UNIT: Final = ROOT / "tests/unit"
OF_NO_HOUSE: Final = {"project", "releases"}
GENERATED: Final = ROOT / "tests/unit/group/classic/wire/generated"

MODULES: Final = [
    module
    for folder in ("airflow_provider", "benchmarks", "demo", "docs", "scripts", "tests")
    for module in sorted((ROOT / folder).rglob("*.py"))
    if module.parent != GENERATED
]
ROOMS: Final = sorted(room.parent for room in (ROOT / "airflow_provider").glob("*/**/__init__.py"))


def lines_in(module: Path) -> int:
    return len(module.read_text(encoding="utf-8").splitlines())


def naming(pattern: str, folder: Path) -> set[str]:
    """The modules in a folder whose text has this."""
    modules = (module for module in MODULES if module.is_relative_to(folder))
    return {str(module.relative_to(ROOT)) for module in modules if re.search(pattern, module.read_text("utf-8"))}


def test_no_module_is_long() -> None:
    long = {str(module.relative_to(ROOT)): lines_in(module) for module in MODULES}
    assert {name: lines for name, lines in long.items() if lines > MOST_LINES_OF_A_MODULE} == {}


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(ROOT / "airflow_provider")))
def test_no_room_is_too_full(room: Path) -> None:
    assert sum(map(lines_in, room.glob("*.py"))) <= MOST_LINES_OF_A_ROOM
    entries = {entry.name for entry in room.iterdir()} - {"__init__.py", "__pycache__"}
    assert room.name == EXAMPLES or len(entries) <= MOST_ENTRIES_OF_A_ROOM


def test_no_admin_client_is_asked_for_offsets() -> None:
    """Librdkafka may end the process then: see ``kafka/topics/administration/partition_ends.py``."""
    assert naming(r"\blist_offsets\b", PACKAGE) == set()


def test_no_two_files_of_tests_have_the_same_name() -> None:
    """They could not be run together, as by ``make thorough``."""
    names = Counter(module.name for module in MODULES if module.name.startswith("test_"))
    assert [name for name, number in names.items() if number > 1] == []


def test_system_tests_redirect_no_output() -> None:
    """Some of them run side by side in one process, and would take each other's: see ``cospark_command.py``."""
    assert naming(r"\bredirect_std|\bcap(sys|fd)\b", ROOT / "tests" / "system") == set()


def test_unit_tests_stand_where_the_code_stands() -> None:
    """In a folder for a house, a room, or a module with several files of tests, if they are about one house at all."""
    folders = {file.parent.relative_to(UNIT) for file in UNIT.rglob("test_*.py")}
    assert Path() not in folders
    of_houses = {PACKAGE / folder for folder in folders if folder.parts[0] not in OF_NO_HOUSE}
    assert {code for code in of_houses if not (code.is_dir() or code.with_suffix(".py").is_file())} == set()


def test_the_order_of_the_houses_is_drawn_as_it_is_checked() -> None:
    contracts, page = (ROOT / "pyproject.toml").read_text(), (ROOT / "docs/architecture.md").read_text()
    checked = re.search(r"^layers = \[\n(.*?)^\]", contracts, re.MULTILINE | re.DOTALL)
    drawn = re.search(r"the houses below it, .*?```text\n(.*?)```", page, re.DOTALL)
    assert checked is not None
    assert drawn is not None
    assert drawn[1].splitlines() == re.findall(r'"(.*)",', checked[1])
