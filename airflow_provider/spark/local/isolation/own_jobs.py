"""What a task may cancel: its own Spark jobs. The context, its groups and its tags are those of all tasks, so
``cancelAllJobs()`` of one would fail the jobs of all others; so would a group or tag that two tasks give the same name.
"""
# ruff: noqa: SLF001 - PySpark has no public way

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from airflow_provider.spark.local.isolation.cached_data import owner_of

if TYPE_CHECKING:
    from pyspark import SparkContext

log = logging.getLogger(__name__)

TASK_TAG_PREFIX: Final = "cospark-"
"""How the tags begin that the jobs of a task have. Only the worker cancels by these, from any thread."""


def methods_that_spare_others() -> Iterator[tuple[type, str, Callable[..., Any]]]:
    """The methods of a context that cancel jobs, each with its class and name, such that a task cancels only its own.

    In a thread of no task, they raise what ``SparkSession.active()`` raises there.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    cancel_all, cancel_group = SparkContext.cancelAllJobs, SparkContext.cancelJobGroup
    cancel_tag = SparkContext.cancelJobsWithTag

    def cancel_all_of_task(context: SparkContext) -> None:
        session = SparkSession.active()
        mine = owner_of(session)
        if mine is None:
            cancel_all(context)
            return
        log.warning("A task called cancelAllJobs(): only its own are cancelled, because others use that Spark, too")
        cancel_tag(context, mine)
        session.interruptAll()

    def cancel_group_of_task(context: SparkContext, groupId: str) -> None:  # noqa: N803 - PySpark's name
        mine = owner_of(SparkSession.active())
        if mine is None:
            cancel_group(context, groupId)
        else:
            tracker = context._jsc.sc().statusTracker()
            _cancel(context, {*tracker.getJobIdsForGroup(groupId)} & {*tracker.getJobIdsForTag(mine)})

    def cancel_tag_of_task(context: SparkContext, tag: str) -> None:
        mine = None if tag.startswith(TASK_TAG_PREFIX) else owner_of(SparkSession.active())
        if mine is None:
            cancel_tag(context, tag)
        else:
            tracker = context._jsc.sc().statusTracker()
            _cancel(context, {*tracker.getJobIdsForTag(tag)} & {*tracker.getJobIdsForTag(mine)})

    yield SparkContext, "cancelAllJobs", cancel_all_of_task
    yield SparkContext, "cancelJobGroup", cancel_group_of_task
    yield SparkContext, "cancelJobsWithTag", cancel_tag_of_task


def _cancel(context: SparkContext, jobs: set[int]) -> None:
    """Those that have ended are not affected."""
    for job in jobs:
        context._jsc.sc().cancelJob(job)
