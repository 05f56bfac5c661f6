"""Reads a JSON object from an option's value, or from a file that it names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def json_object_of(option: str, text: str) -> dict[str, Any]:
    """The object in the text, or in the file if the text begins with ``@``.

    :raises ValueError: naming the option, and what is no JSON object
    """
    try:
        value = json.loads(Path(text[1:]).read_text() if text.startswith("@") else text)
    except OSError as wrong:
        raise ValueError(f"{option} {text}: {wrong}") from wrong
    except RecursionError as deep:
        raise ValueError(f"{option} is not JSON that can be read: too deeply nested") from deep
    except ValueError as wrong:
        raise ValueError(
            f'{option} is not JSON: {wrong}; write it as \'{{"key": "value"}}\', or @FILE for what is in a file'
        ) from wrong
    if not isinstance(value, dict):
        raise ValueError(f"{option} must be a JSON object, not {text}")
    return value
