"""The hook by which DAG authors use a group: its jobs, its workers, its epochs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider.hooks.group_access import GroupAccess
from airflow_provider.integration.operator_parameters.parameters import choice, milliseconds, scale_goal
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.topics.rights import RETRIER, STEERER, STOPPER, SUBMITTER
from airflow_provider.kafka.whoami import user_at_host
from airflow_provider.spark.connect.server import AllowedServers
from airflow_provider.state.metrics.missing_slots import NO_ROOM, Room, room
from airflow_provider.state.operations.operations import (
    AlterJob,
    HaltJob,
    JobOperation,
    NoJobError,
    Operation,
    OperationError,
    Outcome,
    Rebalance,
    RestartJob,
    ResumeJob,
    SetLogLevel,
    StopTasks,
)
from airflow_provider.state.records import ControlAction, ControlRecord, Halt, JobDefinition, LogLevel
from airflow_provider.state.reports.job_description import JobDescription
from airflow_provider.state.reports.report import GroupReport, JobReport
from airflow_provider.state.views.orphans import Orphan, orphans
from airflow_provider.state.views.presence import may_be_asked
from airflow_provider.state.views.slots.scaling import ScaleDown, ScaleError
from airflow_provider.values.model import WorkerId

if TYPE_CHECKING:
    from airflow_provider.group.declarative.requests.configuring import GroupSetting
    from airflow_provider.kafka.topics.topic_writer import GroupTopics, Submission


class SparkGroupHook(GroupAccess):
    """Submits, operates and removes the jobs of a group of workers, and reports their progress.

    For tasks and their threads; each call opens the group's topics, acts, and closes them.

    :param kafka_conn_id: a connection of type ``kafka``: librdkafka's configuration in its extra, as for Airflow's own
        Kafka provider. ``docs/security.md`` lists the rights that its user needs
    """

    # ---- jobs

    def submit_job(self, group: str, definition: JobDefinition) -> Submission:
        """Submit a job to the group; creates missing topics.

        Submitting the same definition with the same run key only tries tasks again that have failed for good: see
        :meth:`retry_failed`. Without ``submitted_at_ms`` it is submitted now.

        :raises TopicError: if the topics can't be created, read or written; says what is missing
        """
        from airflow_provider.integration import one_shot

        if not definition.submitted_at_ms:
            definition = replace(definition, submitted_at_ms=wall_ms())
        return one_shot.act(self.get_settings(), group, SUBMITTER, lambda topics: topics.submit(definition))

    def remove_job(self, group: str, job: str, *, by: str | None = None) -> bool:
        """Remove a job: its tasks are stopped, and their progress is lost.

        :param by: who asks for it, for those who wait for the job; by default the user and the host
        :returns: whether there was such a job
        :raises TopicError: as :meth:`submit_job`
        """
        return self._act(group, STEERER, lambda topics: topics.remove(job, by=_who(by))) or False

    def retry_failed(
        self, group: str, job: str, tasks: Iterable[int] | None = None, *, by: str | None = None
    ) -> list[str]:
        """Try those tasks of the job's present run again that have failed for good.

        :param tasks: the indexes of some tasks, -1 for the planner; by default all
        :param by: as in :meth:`pause_job`
        :returns: the tasks that are tried again: those of the given ones that had failed
        :raises OperationError: if there is no such task
        :raises TopicError: as :meth:`submit_job`
        """
        indexes = None if tasks is None else frozenset(tasks)

        async def retry(topics: GroupTopics) -> list[str]:
            return [str(task) for task in await topics.retry_failed(job, indexes, by=_who(by))]

        try:
            return self._act(group, RETRIER, retry) or []
        except NoJobError:
            return []

    def pause_job(self, group: str, job: str, *, by: str | None = None) -> Outcome:
        """Pause a job: its tasks stop, but stay assigned where they are.

        :param by: who asks, for the group's events; by default the user and the host
        :raises OperationError: if there is no such job, or it has nothing left to run
        :raises TopicError: as :meth:`submit_job`
        """
        return self.operate(group, HaltJob(job=job, halt=Halt.PAUSED), by=by)

    def stop_job(self, group: str, job: str, tasks: Iterable[int] | None = None, *, by: str | None = None) -> Outcome:
        """Stop a job, or some of its tasks: they stop and are released, so that other tasks get their slots. Unlike
        removing a job, this keeps their progress. Otherwise as :meth:`pause_job`.

        :param tasks: the indexes of some tasks, which then stay stopped until they are restarted; None: the whole job
        :raises OperationError: also if one of these tasks has finished or failed
        """
        if tasks is not None:
            return self.operate(group, StopTasks(job=job, tasks=frozenset(tasks)), by=by)
        return self.operate(group, HaltJob(job=job, halt=Halt.STOPPED), by=by)

    def resume_job(self, group: str, job: str, *, by: str | None = None) -> Outcome:
        """Run a paused or stopped job again. Otherwise as :meth:`pause_job`."""
        return self.operate(group, ResumeJob(job=job), by=by)

    def restart_job(
        self,
        group: str,
        job: str,
        tasks: Iterable[int] | None = None,
        *,
        only_failed: bool = False,
        by: str | None = None,
    ) -> Outcome:
        """Restart the running tasks of a job where they are, try failed ones again, and resume tasks that were stopped
        individually. Finished tasks stay finished. Restarting running tasks needs no rebalance; nor does a failed task
        of a classic group, if the worker where it failed still has it.

        :param tasks: the indexes of some tasks, -1 for the planner; by default all, and the planner
        :param only_failed: only try failed tasks again; leave running tasks alone
        :param by: as in :meth:`pause_job`
        :raises OperationError: if there is no such job, or no such task
        :raises TopicError: as :meth:`submit_job`
        """
        indexes = None if tasks is None else frozenset(tasks)
        return self.operate(group, RestartJob(job=job, tasks=indexes, only_failed=only_failed), by=by)

    def alter_job(
        self,
        group: str,
        job: str,
        config: Mapping[str, Any] | None = None,
        *,
        session_conf: Mapping[str, str | None] | None = None,
        if_version: int | None = None,
        by: str | None = None,
        **settings: int,
    ) -> Outcome:
        """Change the definition of a running job: only tasks whose own configs change are restarted.

        :param config: changes of its config, by key; None removes a key
        :param session_conf: changes of its Spark settings, likewise; each task has them from its next start on
        :param if_version: only if this is still its version, as :meth:`describe_job` tells it, so that a change made
            meanwhile is not overwritten
        :param by: as in :meth:`pause_job`
        :param settings: ``max_tasks``, ``retries``, ``retry_delay_ms``, ``timeout_ms``, ``replan_interval_ms`` or
            ``stall_after_ms``
        :raises OperationError: if there is no such job, if its version is another, or for another setting
        :raises LostUpdateError: if somebody else altered it at the same moment; their change is undone
        :raises JobError: for values that are not acceptable
        :raises TopicError: as :meth:`submit_job`
        """
        alter = AlterJob(
            job=job,
            defined_at=if_version,
            config=config or {},
            session_conf=session_conf or {},
            settings=settings,
        )
        return self.operate(group, alter, by=by)

    def set_log_level(
        self, group: str, logger: str, level: str | None, *, worker: str | None = None, by: str | None = None
    ) -> Outcome:
        """Set the level of a logger of the jobs' code, in workers that run and that start later.

        :param logger: as in ``logging.getLogger(...)``, within the ``allowed_entry_points`` of the workers
        :param level: ``DEBUG``, ``INFO``, ``WARNING``, ``ERROR`` or ``CRITICAL``; None: reset it
        :param worker: only in this one; by default in all
        :param by: as in :meth:`pause_job`
        :raises ValueError: for another level, or a name that no logger can have
        :raises OperationError: if there is no such worker, or none that may import such code as jobs
        :raises TopicError: as :meth:`submit_job`
        """
        named = None if worker is None else WorkerId(worker)
        wanted = None if level is None else choice("level", level, LogLevel)
        operation = SetLogLevel(logger=logger, level=wanted, worker=named)
        return self._of_group(group, operation, by)

    def rebalance(self, group: str, *, by: str | None = None) -> Outcome:
        """Rebalance a group in the classic protocol now: lost tasks no longer wait for their worker, and delayed moves
        happen now.

        :param by: as in :meth:`pause_job`
        :raises OperationError: if the group has no workers, or is a declarative group, which has no rounds
        :raises TopicError: as :meth:`submit_job`
        """
        return self._of_group(group, Rebalance(), by)

    def _of_group(self, group: str, operation: Operation, by: str | None) -> Outcome:
        outcome = self._act(group, STOPPER, lambda topics: topics.carry_out(operation, by=_who(by)))
        if outcome is None:
            raise OperationError(f"there is no group {group!r}")
        return outcome

    def log_levels(self, group: str) -> dict[str, dict[str, str]]:
        """The log levels that are set, by worker (``*``: all) and by logger."""
        set_levels = self.look(group, lambda jobs, _status: jobs.levels) or {}
        return {
            worker: {logger: level.value for logger, level in record.levels.items()}
            for worker, record in set_levels.items()
        }

    def operate(self, group: str, operation: JobOperation, *, by: str | None = None) -> Outcome:
        """Carry out an operation on a job.

        :param by: as in :meth:`pause_job`
        :raises OperationError: if it can't be done; nothing was written then
        :raises TopicError: as :meth:`submit_job`
        """
        outcome = self._act(group, STEERER, lambda topics: topics.carry_out(operation, by=_who(by)))
        if outcome is None:
            raise NoJobError(operation.job)
        return outcome

    # ---- workers

    def stop_workers(
        self, group: str, workers: str | Iterable[str] | None = None, *, by: str | None = None
    ) -> list[str]:
        """Ask workers to stop their tasks and leave the group; their Airflow tasks then succeed.

        :param workers: their names, or the name of one; by default all that are in the group
        :param by: as in :meth:`pause_job`
        :returns: the workers that were asked
        :raises TopicError: as :meth:`submit_job`
        """

        async def stop(topics: GroupTopics) -> list[str]:
            await topics.catch_up()
            names = may_be_asked(topics.status) if workers is None else workers
            asked = [names] if isinstance(names, str) else sorted(names)
            now_ms = wall_ms()
            for worker in asked:
                wish = ControlRecord(worker=WorkerId(worker), action=ControlAction.STOP, at_ms=now_ms, by=_who(by))
                await topics.publish_control(wish)
            return asked

        return self._act(group, STOPPER, stop) or []

    def scale_down(
        self,
        group: str,
        *,
        to: str | None = None,
        workers: int | str | None = None,
        without: Sequence[str] | str | None = None,
        within_s: float | None = None,
        by: str | None = None,
    ) -> ScaleDown:
        """Ask workers to leave when their batch tasks have finished and others have learned the rest; their Airflow
        tasks then succeed. In a group that learns no tasks, they leave when their running tasks have finished; others
        adopt their detached streams.
        Those with the fewest slots are asked first, then those with the least to move.

        Give one of these three:

        :param to: the percentage of the present workers that stay, rounded up: ``"80%"``
        :param workers: how many workers stay
        :param without: the names of workers that leave
        :param within_s: each worker stops what it still runs and leaves, this many seconds after it was asked; None: no
            limit
        :param by: as in :meth:`pause_job`
        :returns: who was asked, and who stays
        :raises ValueError: if the group can't reach this size by workers leaving, or has reached it; nobody was asked
            then
        :raises TopicError: as :meth:`submit_job`
        """
        goal = scale_goal(to=to, workers=workers, without=without)
        within_ms = None if within_s is None else milliseconds("within_s", within_s)
        plan = self._act(group, STOPPER, lambda topics: topics.scale_down(goal, within_ms=within_ms, by=_who(by)))
        if plan is None:
            raise ScaleError("there is no such group")
        return plan

    # ---- declarative groups

    def configure_group(
        self, group: str, changes: Mapping[str, int] | None = None, *, reset: Iterable[str] = ()
    ) -> Mapping[str, GroupSetting]:
        """Change the settings of a declarative group: all changes, or none. Without changes it only reads the settings.

        :param changes: milliseconds by name: ``session_timeout_ms``, ``heartbeat_interval_ms``, ``max_delay_ms``
        :param reset: the names of settings to reset to the coordinators' defaults
        :returns: the settings after that, by name
        :raises GroupConfigError: if a value is refused; says what is wrong and what to do
        :raises TopicError: if no coordinator can be asked, or none has answered
        """
        from airflow_provider.group.declarative.requests.configuring import configure_group

        return self._run(lambda settings: configure_group(settings, group, changes or {}, frozenset(reset)))

    # ---- progress

    def job_progress(self, group: str, job: str) -> JobReport | None:
        """The progress of a job's present run; None if the group has no such job."""
        return self.look_now(group, lambda jobs, status: JobReport.of(job, jobs, status))

    def orphans(self, group: str) -> list[Orphan]:
        """The streams on Spark Connect servers, and the drivers on clusters, that no worker of the group watches. Those
        of a lost worker only count when the group, or if it was the last one its coordinator, has noticed its loss.

        :raises TransportError: if no broker answers
        :raises TopicError: as :meth:`look`
        """
        return self._look_for_certain(group, lambda jobs, status: list(orphans(jobs, status))) or []

    def end_orphans(
        self, group: str, allowed_spark_servers: Iterable[str] = (), allowed_masters: Iterable[str] = ()
    ) -> dict[str, str]:
        """Let their servers end the streams that :meth:`orphans` lists, and kill the drivers on the clusters that
        are known here. The tokens come from the connections in the streams' handles.

        :param allowed_spark_servers: URLs of the servers that may be called: handles come from a topic
        :param allowed_masters: likewise, masters of Kubernetes (``k8s://…``), which get the credentials found here
        :returns: by task, why it may not have ended; empty: it has ended
        :raises TransportError: if no broker answers
        :raises TopicError: if that can't be written
        """
        from airflow_provider.hooks.spark_connect import token_of_handle
        from airflow_provider.integration.memberships.deserted import status_of_those_left
        from airflow_provider.worker.hands import end_orphan_queries as ending
        from airflow_provider.worker.hands.servers import Servers

        settings = self.get_settings()
        allowed = AllowedServers.of(allowed_spark_servers)
        servers = Servers(own=None, token_of=token_of_handle, allowed=allowed, masters=tuple(allowed_masters))

        async def end_all(topics: GroupTopics) -> dict[str, str]:
            await topics.catch_up()
            status = await status_of_those_left(group, topics, settings)
            left = await ending.end_all(orphans(topics.jobs, status), topics, servers.settings_of, servers.cluster_of)
            return {str(each.status.task): why for each, why in left}

        return self._act(group, RETRIER, end_all) or {}

    def describe_job(self, group: str, job: str) -> JobDescription | None:
        """A job's definition and its state; None if the group has no such job."""
        return self.look_now(group, lambda jobs, status: JobDescription.of(job, jobs, status))

    def describe_jobs(self, group: str) -> list[JobDescription]:
        """All jobs of a group likewise, by name; none if there is no such group."""
        return self.look_now(group, JobDescription.of_all) or []

    def group_state(self, group: str) -> GroupReport | None:
        """The group's present epoch: its members, their tasks, what has moved; None before its first rebalance."""
        return self.look(group, GroupReport.of)

    def room(self, group: str, *, waited_s: float = 0) -> Room:
        """How many slots the group has, and how many it lacks or has to spare now: to add or remove workers.

        :param waited_s: only tasks that have waited for so long, in seconds, lack slots
        :raises TransportError: if no broker answers
        :raises TopicError: as :meth:`look`
        """
        now = partial(room, now_ms=wall_ms(), waited_ms=milliseconds("waited_s", waited_s))
        return self._look_for_certain(group, now) or NO_ROOM


def _who(by: str | None) -> str:
    return user_at_host() if by is None else by
