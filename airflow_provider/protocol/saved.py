"""What one process saves and another goes on with: a membership, and what goes with it. It has one version.

Fields that a reader doesn't know are ignored, and new ones have a default: so what is saved may gain fields under the
same version. A higher one means that an older release must not read it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

SAVED_VERSION: Final = 1
"""Of a trigger's arguments and its event, of a worker's plan and story, and of a membership: in ``"v"`` of each."""

CLASSIC: Final = "classic"
"""The group protocol of what was saved before it said of which one it is."""

CONNECT: Final = "connect"
"""The protocol of declarative groups."""


def check_saved(data: Mapping[str, Any], what: str) -> None:
    """Check that this release can read what was saved.

    :param what: what it is, for the error
    :raises ValueError: if not; it says what to do
    """
    version = data.get("v")
    if type(version) is not int or version < 1:
        raise ValueError(f"not a saved {what}: its version is {version!r}. Clear the task: its worker joins anew")
    if version > SAVED_VERSION:
        raise ValueError(
            f"a saved {what} of version {version!r}, and this release reads up to {SAVED_VERSION}: upgrade the"
            " triggerer and the workers to the release that saved it"
        )


@contextmanager
def reading_saved(what: str) -> Iterator[None]:
    """Whatever is wrong with what is read in the block, the error says what to do.

    :param what: what it is, for the error
    :raises ValueError: if it can't be read
    """
    try:
        yield
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as wrong:
        raise ValueError(
            f"not a saved {what}: {type(wrong).__name__} {wrong}. Clear the task: its worker joins anew"
        ) from wrong


def check_group_protocol(membership: Mapping[str, Any], spoken: str) -> None:
    """Check that a saved membership is of the group protocol that its worker speaks.

    :raises ValueError: if not; it says what to do
    """
    saved_in = membership.get("group_protocol", CLASSIC)
    if saved_in != spoken:
        raise ValueError(
            f"a saved membership of the group protocol {saved_in!r}, and its worker speaks {spoken!r}: clear the task,"
            " and its worker joins anew"
        )
