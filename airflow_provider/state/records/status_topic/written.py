"""The assets that a task has written, in the record of its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec

from airflow_provider.state.records.envelope import COUNT, TEXT
from airflow_provider.state.records.plain import Plain

_NAME = msgspec.Meta(min_length=1, max_length=TEXT.max_length)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenAsset(Plain):
    """What a finished attempt has written to an asset.

    :param name: of the asset in Airflow
    :param uri: of the asset; the name if the job gave none
    :param rows: None: unknown
    """

    name: Annotated[str, _NAME]
    uri: Annotated[str, _NAME]
    rows: Annotated[int, COUNT] | None = None
