"""One value of a metric, with its name for backends with tags and for those without."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from airflow_provider.state.metrics.declared import Metric

_LONGEST: Final = 80
"""In characters. Airflow refuses names of more than 250, and a name may have two names that users have chosen."""

_FOREIGN: Final = re.compile(r"[^a-zA-Z0-9_.-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One value of a metric.

    :param tags: the values of the metric's tags, in their order
    """

    metric: Metric
    value: float
    tags: tuple[str, ...]

    @property
    def tagged(self) -> Mapping[str, str]:
        """The tags, as Airflow expects them."""
        return {tag.value: plain(said) for tag, said in zip(self.metric.tags, self.tags, strict=True)}

    @property
    def flat_name(self) -> str:
        """The name including the tags. Dots separate them, so a dot in a tag becomes ``__``, as in Airflow."""
        return ".".join((self.metric.name, *(plain(said.replace(".", "__")) for said in self.tags)))


def plain(said: str) -> str:
    """A user's name for something, in characters that Airflow accepts. Names that are cut stay distinct."""
    short = said if len(said) <= _LONGEST else f"{said[: _LONGEST - 9]}_{crc32(said.encode()):08x}"
    return _FOREIGN.sub("_", short) or "_"
