"""Imports DAG files of a folder as Airflow does."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest
from airflow.utils.file import get_unique_dag_module_name

Parse = Callable[[str, str], ModuleType]
"""Writes a file of this name and text, and imports it."""


@contextmanager
def parsing(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[Parse]:
    """The folder is on Python's path, as where tasks run. What was imported from it is forgotten afterwards."""
    patch.syspath_prepend(str(folder))

    def parsed(name: str, text: str) -> ModuleType:
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        spec = importlib.util.spec_from_file_location(get_unique_dag_module_name(str(file)), file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module

    yield parsed
    for name, module in list(sys.modules.items()):
        if str(vars(module).get("__file__")).startswith(str(folder)):
            del sys.modules[name]
