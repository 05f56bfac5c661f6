"""What lies in ``scripts``, as modules."""

from __future__ import annotations

import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

SCRIPTS = Path(__file__).parents[4] / "scripts"


def load(name: str) -> ModuleType:
    """A script, or a module beside them. They import each other by their bare names."""
    known = name.replace("-", "_")
    if known in sys.modules:
        return sys.modules[known]
    sys.path.insert(0, str(SCRIPTS))
    try:
        file = SCRIPTS / name
        loader = SourceFileLoader(known, str(file if file.exists() else file.with_suffix(".py")))
        spec = spec_from_loader(known, loader)
        assert spec is not None
        module = sys.modules[known] = module_from_spec(spec)  # dataclasses look there
        loader.exec_module(module)
    finally:
        sys.path.remove(str(SCRIPTS))
    return module
