"""Members of an older release: they do not know the newest version of the embedded protocol."""

from __future__ import annotations

from enum import Enum
from typing import Final, cast

from airflow_provider.values.model import ConnectProtocol, SubProtocol


class _Older(str, Enum):
    """As ``ConnectProtocol`` in that release."""

    EXTENSIBLE = "extensible"

    @property
    def offered(self) -> tuple[SubProtocol, ...]:
        return tuple(offer for offer in ConnectProtocol.EXTENSIBLE.offered if offer is not SubProtocol.COMPRESSED)


OLDER: Final = cast("ConnectProtocol", _Older.EXTENSIBLE)
"""The setting ``extensible`` of such a member."""
