"""Warns of settings of a connection with which others on the network can read or change what is sent: once in each
process, by the setting's name.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final, NamedTuple

log = logging.getLogger(__name__)

_SAID: Final[set[tuple[str, str]]] = set()


class Risk(NamedTuple):
    """A setting, and what others can do because of it."""

    setting: str
    others_can: str


def warn_once(conn_id: str, risks: Iterable[Risk]) -> None:
    """:param conn_id: the connection that has these settings"""
    for risk in risks:
        if (conn_id, risk.setting) not in _SAID:
            _SAID.add((conn_id, risk.setting))
            log.warning("connection %r: %s: %s", conn_id, risk.setting, risk.others_can)
