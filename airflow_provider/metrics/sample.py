"""One value of a metric, and what it is called where there are tags, and where there are none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from airflow_provider.metrics.declared import Metric

_LONGEST: Final = 80
"""Airflow refuses a name of more than 250 characters, and a name may have two names of people in it."""

_FOREIGN: Final = re.compile(r"[^a-zA-Z0-9_.-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """:param tags: the values of the metric's tags, in their order"""

    metric: Metric
    value: float
    tags: tuple[str, ...]

    @property
    def tagged(self) -> Mapping[str, str]:
        """The tags as Airflow takes them."""
        return {tag.value: plain(said) for tag, said in zip(self.metric.tags, self.tags, strict=True)}

    @property
    def flat_name(self) -> str:
        """The name with the tags in it. Between dots stands one tag, so a dot in one becomes ``__``, as in Airflow."""
        return ".".join((self.metric.name, *(plain(said.replace(".", "__")) for said in self.tags)))


def plain(said: str) -> str:
    """What people call something, in characters that Airflow lets pass. What had to be cut can still be told apart."""
    short = said if len(said) <= _LONGEST else f"{said[: _LONGEST - 9]}_{crc32(said.encode()):08x}"
    return _FOREIGN.sub("_", short) or "_"
