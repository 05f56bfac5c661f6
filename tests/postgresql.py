"""Tests that need PostgreSQL's server."""

from __future__ import annotations

from typing import Final

import pytest

from demo.postgres import PACKAGE, programs

needs_postgresql: Final = pytest.mark.skipif(
    programs() is None, reason=f"PostgreSQL's server is not installed: Debian's package is {PACKAGE}"
)
