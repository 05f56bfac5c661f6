"""How soon a trigger may let its task resume.

Airflow 3.3 counts a task that defers and the same task resumed as one workload. If it queues the second before the
scheduler has seen the first one's process end, it believes that the second was killed, and fails the task ("the
executor reported that the task instance finished with state success, but the task instance's state attribute is
queued"). This was seen in a quarter of the tasks on a busy machine whose triggers fired together; never with this
pause.
"""

from __future__ import annotations

from typing import Final

from airflow_provider.kafka.clock import wall_ms

PAUSE_MS: Final = 7_000
"""The least time from the deferral to the event that resumes the task, in milliseconds."""


def pause_left_s(deferred_at_ms: int) -> float:
    """How long to wait, in seconds, before the task may be resumed; never longer than the pause.

    :param deferred_at_ms: wall clock: the trigger may run on another host than the task
    """
    return min(max(0, deferred_at_ms + PAUSE_MS - wall_ms()), PAUSE_MS) / 1000
