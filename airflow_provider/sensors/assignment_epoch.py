"""The sensor that waits for a rebalance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider.integration.operator_parameters.parameters import is_template, whole_number
from airflow_provider.sensors.base import SparkGroupSensor
from airflow_provider.triggers.conditions import EpochCondition


class AssignmentEpochSensor(SparkGroupSensor):
    """Waits until a group has reached an epoch: the number of an assignment, which grows with every rebalance.

    :param at_least: wait for this epoch or a later one
    :param after: wait for a later epoch than this one, for example the ``epoch`` in another task's report. Give one of
        the two
    :param converged: wait also until every worker has applied the assignment, and no further round is to follow (no
        task has still to be stopped, none is being learned, and no delay runs)

    Further parameters are those of :class:`~airflow_provider.sensors.base.SparkGroupSensor` and of Airflow's sensors.

    Returns the last rebalance: ``epoch``, ``generation``, ``leader``, ``members``, ``assignment`` and ``revoked`` by
    worker, ``moved`` (for each task ``task``, ``from``, ``to``, ``reason``), ``leaving``, ``delay_ms`` and
    ``deadline_ms`` of the scheduled delay, ``reason``, ``step``, ``at_ms``, ``converged``, ``learners``,
    ``short_of_slots``, and the state of the ``workers``.
    """

    template_fields: Sequence[str] = ("group", "at_least", "after", "kafka_conn_id")

    def __init__(
        self,
        *,
        at_least: int | str | None = None,
        after: int | str | None = None,
        converged: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.at_least = at_least
        self.after = after
        self.converged = converged
        if (at_least is None) == (after is None):
            raise ValueError("at_least, after: give one of the two")
        if not is_template(at_least) and not is_template(after):
            self.condition()

    def condition(self) -> EpochCondition:
        if self.at_least is not None:
            epoch = whole_number("at_least", self.at_least, least=1)
        else:
            epoch = whole_number("after", self.after, least=0) + 1
        return EpochCondition(at_least=epoch, converged=self.converged)
