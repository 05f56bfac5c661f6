"""When owners stop tasks that others learn before they move."""

from __future__ import annotations

from enum import Enum

from airflow_provider.values.model import Tasks


class LearnedRule(str, Enum):
    """When an owner stops tasks that others learn. It is the owners' rule; a leader sees it in what they still own."""

    AT_REBALANCE = "at-rebalance"
    """All at the start of every rebalance, as in the proposal. If no learner is ready, the owner gets them back."""
    WHEN_READY = "when-ready"
    """Only those for which it knows that a learner is ready. Others it stops in a round of their own (KIP-415)."""

    def stops(self, learned: Tasks, known_ready: Tasks) -> Tasks:
        """The tasks that an owner stops before it joins.

        :param learned: its tasks that are being learned, according to the last round
        :param known_ready: its tasks for which it knows that a learner is ready
        """
        return learned if self is LearnedRule.AT_REBALANCE else learned & known_ready
