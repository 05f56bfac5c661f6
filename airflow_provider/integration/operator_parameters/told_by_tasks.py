"""Takes nothing for a template that another task has told tasks which are mapped over it.

Airflow does so in ``expand``. In ``expand_kwargs`` it takes all values for what the DAG's author wrote, so a text from
outside could read variables and connections.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk.definitions._internal.expandinput import ListOfDictsExpandInput


class ToldKwargs(ListOfDictsExpandInput):
    """The parameters of ``expand_kwargs``."""

    def resolve(self, context: Mapping[str, Any]) -> tuple[Mapping[str, Any], set[int]]:
        """The parameters of one mapped task, and the ids of those that are not to be rendered."""
        mapping, seen = super().resolve(context)
        if isinstance(self.value, Sequence) and any(mapping is each for each in self.value):
            return mapping, seen  # its author wrote it
        return mapping, seen | {id(value) for value in mapping.values()}
