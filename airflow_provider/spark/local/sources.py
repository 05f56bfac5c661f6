"""Finds the modules that a job uses, and tells which of them can be sent to executors on other machines.

A function is pickled by the name of its module. So the job's code must be importable there: its own top-level module or
package, and the modules that this imports, unless they are installed (for example, those in the DAGs folder). Installed
packages have to be installed there, too; they may have compiled parts.
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
"""This package, from which a job imports its base class. It needs no other package on an executor."""

MAX_BYTES: Final = 64 * 1024 * 1024
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A top-level module or package.

    :param files: its files, each with the path under which it is imported
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
    """The job's own top-level module, this package, and then the modules that these import, unless they are installed.
    None of their code is called.

    :param module: the module of a job
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
    """The folders of a package, or the file of a module; empty for a built-in module."""
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
    """Whether all names are text: others can be neither put into an archive nor imported."""
    return not any("\ud800" <= letter <= "\udfff" for name in names for letter in name)


def _imported_by(source: Source) -> set[str]:
    return {name for path, file in source.files if path.endswith(".py") for name in _imports(file)}


def _imports(file: Path) -> Iterator[str]:
    """The top-level names that a file imports anywhere in it; none if it is not valid for this version of Python."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, OSError, RecursionError, MemoryError):  # too deeply nested for the parser
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.partition(".")[0]
