"""Copies the marked parts of the example DAGs into the pages: ``python docs/sync_examples.py``.

A page names the file and the marker in a comment before a code block::

    <!-- include: airflow_provider/example_dags/example_batch_group.py howto_batch_dag -->

Above each part stand the imports and constants of its file that it needs, so that a reader can copy the block and run
it; a part of a DAG stands in that DAG.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
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
    """The lines between ``[START marker]`` and ``[END marker]``, with what they need and without linters' remarks.

    :raises ValueError: if there are none
    """
    source = (ROOT / path).read_text()
    found = re.search(rf"# \[START {marker}\]\n(.*?)[ ]*# \[END {marker}\]", source, re.DOTALL)
    if found is None:
        raise ValueError(f"{path} has no part {marker!r}")
    part = found[1].rstrip() + "\n"
    if part.startswith(" "):
        gap = "\n" if part.lstrip().startswith(("@", "def ", "class ")) else ""  # as ruff formats it
        part = _header_around(source, source.count("\n", 0, found.start(1)) + 1) + gap + part
    module = ast.parse(source)
    constants, needed = _constants(module, source, _names(ast.parse(textwrap.dedent(part))))
    blocks = [_imports(module, needed), constants, part]
    # As ruff formats it: two empty lines around a class or a function.
    text = "\n".join(block for block in blocks[:-1] if block)
    text += ("\n\n" if part.startswith(("class ", "def ", "@")) else "\n") + blocks[-1]
    return re.sub(r"  # noqa\S*.*", "", text).strip() + "\n"


def _header_around(source: str, line: int) -> str:
    """``with DAG(...):`` around that line."""
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.With) and statement.lineno <= line <= (statement.end_lineno or 0):
            end = statement.items[-1].context_expr.end_lineno or 0
            return "\n".join(source.splitlines()[statement.lineno - 1 : end]) + "\n"
    return ""


def _names(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _constants(module: ast.Module, source: str, needed: set[str]) -> tuple[str, set[str]]:
    """The assignments of the module that bind needed names, and all names that are needed then."""
    lines: list[str] = []
    for statement in reversed(module.body):
        if isinstance(statement, ast.Assign) and needed & _names(statement.targets[0]):
            needed = needed | _names(statement.value)
            end = statement.end_lineno or statement.lineno
            lines[:0] = source.splitlines()[statement.lineno - 1 : end]
    return "".join(f"{line}\n" for line in lines), needed


def _imports(module: ast.Module, needed: set[str]) -> str:
    """The imports of the module that bind needed names, its groups kept apart; also those for type checkers only."""
    text, last = "", 0
    for statement in _import_statements(module):
        names = [alias for alias in statement.names if (alias.asname or alias.name.partition(".")[0]) in needed]
        if names:
            statement.names = names
            gap = "\n" if text and _room(statement) != last else ""
            text, last = f"{text}{gap}{ast.unparse(statement)}\n", _room(statement)
    return text


def _import_statements(module: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    """Sorted as ruff sorts them: Python's, other packages', our own."""
    found = [node for node in ast.walk(module) if isinstance(node, (ast.Import, ast.ImportFrom))]
    yield from sorted((node for node in found if node.col_offset in (0, 4)), key=_room)


def _room(statement: ast.Import | ast.ImportFrom) -> int:
    name = statement.module if isinstance(statement, ast.ImportFrom) else statement.names[0].name
    top = (name or "").partition(".")[0]
    return 2 if top == "airflow_provider" else 1 if top in ("airflow", "pyspark") else 0


def main() -> None:
    for page in sorted((ROOT / "docs").rglob("*.md")):
        page.write_text(synced(page.read_text()))


if __name__ == "__main__":
    main()
