"""Which of the modules that a job uses can be sent to executors on other machines, and what keeps the others from it.

A function is pickled by the name of its module, so what the job's code is made of must be importable there: the job's
own top-level module or package, and what that imports, as far as it is not installed (the folder of the DAGs, for
example). What is installed, installers know how to install there, too; it may have compiled parts.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from pathlib import Path
from typing import Final

OURS: Final = __name__.partition(".")[0]
"""The package that a job imports its base class from; it needs no other there."""

MAX_BYTES: Final = 64 * 1024 * 1024
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A top-level module or package.

    :param files: what it consists of, by the path under which it is imported
    """

    name: str
    files: tuple[tuple[str, Path], ...]

    @property
    def obstacle(self) -> str:
        """Why it can't be imported from an archive; empty if it can."""
        for path, _ in self.files:
            if path.endswith(tuple(EXTENSION_SUFFIXES)):
                return f"it has compiled code ({path})"
        size = sum(file.stat().st_size for _, file in self.files)
        return f"it has {size} bytes, more than {MAX_BYTES}" if size > MAX_BYTES else ""


def sources_of(module: str) -> Iterator[Source]:
    """The job's own top-level module first; then ours; then what is imported by those found, and is not installed.

    :param module: of a job that has been imported
    """
    own = module.partition(".")[0]
    wanted, seen = [own, OURS], {own, OURS}
    for name in wanted:
        source = _source(name, installed_too=name in (own, OURS))
        if source is None:
            continue
        yield source
        if name != OURS:
            found = sorted(_imported_by(source) - seen - sys.stdlib_module_names)
            seen.update(found)
            wanted += found


def installed_at(name: str) -> str:
    """Where a top-level module is installed in this Python; empty if it is not."""
    spec = _spec(name)
    roots = [] if spec is None else _roots(spec)
    return next((str(root.parent) for root in roots if _is_installed(root)), "")


def _source(name: str, *, installed_too: bool) -> Source | None:
    spec = _spec(name)
    roots = [] if spec is None else [root for root in _roots(spec) if installed_too or not _is_installed(root)]
    files = [(f"{name}/{path.relative_to(root)}", path) for root in roots if root.is_dir() for path in _below(root)]
    files += [(root.name, root) for root in roots if root.is_file()]
    return Source(name=name, files=tuple(sorted(files))) if files else None


def _spec(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None


def _roots(spec: ModuleSpec) -> list[Path]:
    """The folders of a package, or the file of a module; none of what is built in."""
    if spec.submodule_search_locations is not None:
        return [Path(folder) for folder in spec.submodule_search_locations]
    return [Path(spec.origin)] if spec.has_location and spec.origin else []


def _is_installed(root: Path) -> bool:
    return not _INSTALLED.isdisjoint(root.parts)


def _below(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        inside = path.relative_to(folder).parts
        hidden = "__pycache__" in inside or any(part.startswith(".") for part in inside)
        if not hidden and _is_text(inside) and path.is_file():
            yield path


def _is_text(names: Iterable[str]) -> bool:
    """Others can't stand in an archive, nor be imported."""
    return not any("\ud800" <= letter <= "\udfff" for name in names for letter in name)


def _imported_by(source: Source) -> set[str]:
    return {name for path, file in source.files if path.endswith(".py") for name in _imports(file)}


def _imports(file: Path) -> Iterator[str]:
    """The top-level names that a file imports, wherever in it; those of what is no Python of this version are none."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, OSError, RecursionError, MemoryError):  # it runs out of its own stack
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.partition(".")[0]
