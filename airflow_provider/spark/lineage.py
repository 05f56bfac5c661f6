"""The datasets that a task reads and writes, as its job declares them for OpenLineage. Does not need OpenLineage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, order=True)
class Dataset:
    """A table, a folder or a topic, by OpenLineage's rules for names (https://openlineage.io/docs/spec/naming).

    :param namespace: where it is: ``s3://bucket``, ``kafka://host:9092``, ``file``
    :param name: its name there: ``raw/orders``, ``orders``, ``/data/orders``
    :raises ValueError: if one of them is empty, or not a string
    """

    namespace: str
    name: str

    def __post_init__(self) -> None:
        for field, value in (("namespace", self.namespace), ("name", self.name)):
            if not isinstance(value, str) or not value:
                raise ValueError(f"the {field} of a dataset must be a text that is not empty, not {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """What a task reads and writes.

    :raises TypeError: if they are not datasets
    """

    inputs: Sequence[Dataset] = ()
    outputs: Sequence[Dataset] = ()

    def __post_init__(self) -> None:
        for field, named in (("inputs", self.inputs), ("outputs", self.outputs)):
            for one in named:
                if not isinstance(one, Dataset):
                    raise TypeError(f"{field} must be datasets, not {one!r}")
            object.__setattr__(self, field, tuple(named))


NOTHING_NAMED: Final = Lineage()
