"""A number with what it counts, for people."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """As in "1 slot" and "2 slots".

    :param noun: in the singular; its plural has an "s" more
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"
