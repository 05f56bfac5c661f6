"""Docstrings are reST, in which a name may have a role; on the site they are Markdown."""

from __future__ import annotations

import re
from typing import Any, Final

import griffe

_ROLE: Final = re.compile(r":\w+:`~?([^`]+)`")
_LITERAL_BLOCK: Final = re.compile(r"::$", re.MULTILINE)


class AsMarkdown(griffe.Extension):
    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(docstring: str) -> str:
    """Names without their roles, and blocks of code as they are in Markdown."""
    return _LITERAL_BLOCK.sub(":", _ROLE.sub(r"`\1`", docstring))
