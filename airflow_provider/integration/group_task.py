"""The base class of our operators and sensors: how their parameters are rendered and checked, and how they fail."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from airflow_provider.integration.airflow_metadata.storable import storable
from airflow_provider.integration.operator_parameters.rendering import AsWritten
from airflow_provider.integration.task_failures.for_good import failing_for_good

if TYPE_CHECKING:
    from airflow.sdk.definitions.mappedoperator import OperatorPartial

_CALLED_BY_AIRFLOW: Final = ("execute", "execute_complete", "resume")


class GroupTask(AsWritten):
    """What can't get better fails a task at once, without Airflow's retries; what a task returns can be stored.

    Wrong parameters are reported when the DAG is parsed, also those of ``partial`` and ``expand``, which Airflow itself
    does not read before the tasks run. What only a running task knows fails it then.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            setattr(cls, "__init__", _if_mapped(vars(cls)["__init__"]))  # noqa: B010  mypy refuses an assignment
        for name in _CALLED_BY_AIRFLOW:
            if name in vars(cls):
                setattr(cls, name, _called(vars(cls)[name]))

    @classmethod
    def partial(cls, **kwargs: Any) -> OperatorPartial:
        """As Airflow's; the parameters are checked when the DAG is parsed."""
        from airflow_provider.integration.operator_parameters.checked_partial import CheckedPartial

        return CheckedPartial.of(super().partial(**kwargs))


def _called(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        with failing_for_good():
            return storable(method(*args, **kwargs))

    return call


def _if_mapped(init: Callable[..., None]) -> Callable[..., None]:
    """Airflow makes a mapped task's operator in the running task; others are made when the DAG is parsed."""

    @wraps(init)
    def making(self: Any, *args: Any, **kwargs: Any) -> None:
        if not getattr(self, "_BaseOperator__from_mapped", False):
            init(self, *args, **kwargs)
            return
        with failing_for_good():
            init(self, *args, **kwargs)

    return making
