"""Values of job code at their worst: control characters, surrogates, huge, deep, not a number, no JSON."""

from __future__ import annotations

import random
import re
import sys
from enum import Enum
from typing import Any, Final

BAD: Final = "x\0y \ud800"
_SURROGATES: Final = re.compile("[\ud800-\udfff]")


class Kind(str, Enum):
    """A text that is none exactly."""

    ODD = "odd\0"


def some_text(chance: random.Random) -> str:
    kinds = [(0, 0x20), (0x20, 0x7F), (0xD800, 0xE000), (0x80, 0xD800), (0xE000, 0x110000)]
    return "".join(chr(chance.randrange(*chance.choice(kinds))) for _ in range(chance.randrange(20)))


def some_value(chance: random.Random, depth: int = 4) -> Any:
    match chance.randrange(9 if depth else 5):
        case 0:
            return some_text(chance) * chance.choice([1, 1, 1, 20_000])
        case 1:
            return chance.choice([-1, 1]) * 2 ** chance.choice([3, 62, 63, 64, 500, 20_000])
        case 2:
            return chance.choice([0.1, float("nan"), float("inf"), float("-inf"), sys.float_info.max])
        case 3:
            return chance.choice([None, True, False, b"\0", object(), Kind.ODD])
        case 4:
            value: Any = some_text(chance)
            for _ in range(chance.choice([1, 60, 300])):
                value = [value] if chance.random() < 0.5 else {some_text(chance): value}
            return value
        case 5 | 6:
            return [some_value(chance, depth - 1) for _ in range(chance.randrange(5))]
        case _:
            return {
                chance.choice([some_text(chance), 1, None, float("nan"), BAD]): some_value(chance, depth - 1)
                for _ in range(chance.randrange(5))
            }


def said_by(seed: int) -> tuple[Any, str | None]:
    """What a task of job code returns, or the error with which it fails instead. The first ones are the plainest."""
    chance = random.Random(seed)
    if seed < 2:
        return (BAD[:3], None) if seed else (None, BAD)
    match seed % 3:
        case 0:
            return some_value(chance), None
        case 1:  # as topics take it
            return _SURROGATES.sub("", some_text(chance)), None
        case _:
            return None, some_text(chance) * chance.choice([1, 1, 20_000])
