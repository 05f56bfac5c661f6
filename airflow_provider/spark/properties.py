"""Hands settings to ``spark-submit`` in a file. They may be secret, and anybody on a machine can see the arguments of
its processes.
"""

from __future__ import annotations

import os
import string
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_NAME: Final = "spark.properties"
_PLAIN: Final = frozenset(string.ascii_letters + string.digits + "._-/")


def submit_options(settings: Mapping[str, str], folder: Path, before: bytes = b"") -> list[str]:
    """Write the settings where only this user can read them.

    :param folder: where nobody else can write
    :param before: a file of properties, over which the settings have precedence
    :returns: the options of ``spark-submit`` to read them, with precedence over ``spark-defaults.conf``
    """
    file = folder / _NAME
    lines = "".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in settings.items())
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as opened:
        opened.write(before + b"\n\n" * bool(before) + lines.encode("ascii"))  # its last line may be continued
    return ["--properties-file", str(file), "--load-spark-defaults"]


def _escaped(text: str) -> str:
    """As Java's ``Properties`` reads it, whatever is in it."""
    return "".join(letter if letter in _PLAIN else _units(letter) for letter in text)


def _units(letter: str) -> str:
    code = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{code[at : at + 2].hex()}" for at in range(0, len(code), 2))
