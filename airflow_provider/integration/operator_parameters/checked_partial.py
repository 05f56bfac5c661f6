"""Checks the parameters of mapped tasks when their DAG is parsed, by making the operators that Airflow would make.

What only the running task knows, such as another task's output, is taken for a template.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from airflow.sdk import DAG
from airflow.sdk.definitions.mappedoperator import MappedOperator, OperatorPartial

from airflow_provider.integration.airflow_api.airflow_names import AirflowFailException
from airflow_provider.integration.operator_parameters.told_by_tasks import ToldKwargs

_LATER: Final = "{{ known when the task runs }}"


class CheckedPartial(OperatorPartial):
    """What Airflow has until the task is expanded."""

    @classmethod
    def of(cls, made: OperatorPartial) -> CheckedPartial:
        made._expand_called = True  # noqa: SLF001  this one is expanded in its place
        return cls(operator_class=made.operator_class, kwargs=made.kwargs, params=made.params)

    def expand(self, **mapped_kwargs: Any) -> MappedOperator:
        """:raises ValueError: if a value is wrong"""
        expanded = super().expand(**mapped_kwargs)
        self._check(_each_once(mapped_kwargs))
        return expanded

    def expand_kwargs(self, kwargs: Any, *, strict: bool = True) -> MappedOperator:
        """:raises ValueError: if a value is wrong"""
        expanded = super().expand_kwargs(kwargs, strict=strict)
        expanded.expand_input = ToldKwargs(kwargs)
        if isinstance(kwargs, Sequence):
            self._check(case for case in kwargs if isinstance(case, Mapping))
        return expanded

    def _check(self, cases: Iterator[Mapping[str, Any]]) -> None:
        own = {name: value for name, value in self.kwargs.items() if name not in ("task_id", "dag", "task_group")}
        checked = set[str]()
        for case in cases:
            given = {**own, **case}
            seen = repr(case)
            if seen not in checked:
                checked.add(seen)
                self._try(given)

    def _try(self, given: Mapping[str, Any]) -> None:
        fields = self.operator_class.template_fields
        if any(_is_later(value) and name not in fields for name, value in given.items()):
            return
        known: dict[str, Any] = {name: _LATER if _is_later(value) else value for name, value in given.items()}
        dag = DAG("parameters", schedule=None, auto_register=False)
        known |= {"task_id": "checked", "dag": dag, "task_group": dag.task_group, "default_args": self._default_args()}
        try:
            self.operator_class(**known, _airflow_from_mapped=True)
        except AirflowFailException as wrong:
            raise ValueError(f"task {self.kwargs['task_id']!r}: {wrong}") from wrong

    def _default_args(self) -> dict[str, Any]:
        """Those that Airflow merges when it makes the operator."""
        givers = self.kwargs.get("dag"), self.kwargs.get("task_group")
        return {name: value for giver in givers for name, value in (getattr(giver, "default_args", None) or {}).items()}


def _each_once(mapped: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """As many combinations as it takes to have each value in one."""
    values = {name: _values(value) for name, value in mapped.items()}
    for place in range(max(map(len, values.values()), default=0)):
        yield {name: each[place % len(each)] for name, each in values.items() if each}


def _values(mapped: Any) -> Sequence[Any]:
    if isinstance(mapped, Mapping):
        return list(mapped.items())
    return mapped if isinstance(mapped, Sequence) else [mapped]


def _is_later(value: Any) -> bool:
    return hasattr(value, "resolve") and not isinstance(value, type)
