"""The version of what one process saves for the next one: a membership and what belongs to it.

Readers ignore fields that they don't know, and new fields have defaults. So fields can be added under the same version;
a higher version means that an older release must not read it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

SAVED_VERSION: Final = 1
"""In ``"v"`` of all that is saved: a trigger's arguments and its event, a worker's plan and story, and a membership."""

CLASSIC: Final = "classic"
"""The group protocol of a saved membership that does not name one, as older releases wrote it."""

CONNECT: Final = "connect"
"""The group protocol of declarative groups."""


def check_saved(data: Mapping[str, Any], what: str) -> None:
    """Check that this release can read what was saved.

    :param what: a name for it in the error
    :raises ValueError: if it can't; the message says what to do
    """
    version = data.get("v")
    if type(version) is not int or version < 1:
        raise ValueError(f"not a saved {what}: its version is {version!r}. Clear the task: its worker joins again")
    if version > SAVED_VERSION:
        raise ValueError(
            f"a saved {what} of version {version!r}, but this release reads up to {SAVED_VERSION}: upgrade the"
            " triggerer and the workers to the release that saved it"
        )


@contextmanager
def reading_saved(what: str) -> Iterator[None]:
    """Turn every error of reading saved data in the block into one that says what to do.

    :param what: a name for it in the error
    :raises ValueError: if it can't be read
    """
    try:
        yield
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as wrong:
        raise ValueError(
            f"not a saved {what}: {type(wrong).__name__} {wrong}. Clear the task: its worker joins again"
        ) from wrong


def check_group_protocol(membership: Mapping[str, Any], spoken: str) -> None:
    """Check that a saved membership belongs to the group protocol that its worker uses.

    :raises ValueError: if it does not; the message says what to do
    """
    saved_in = membership.get("group_protocol", CLASSIC)
    if saved_in != spoken:
        raise ValueError(
            f"a saved membership of the group protocol {saved_in!r}, but its worker uses {spoken!r}: clear the task,"
            " and its worker joins again"
        )
