"""The operator that runs a worker of a group as an Airflow task."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final

from airflow_provider.assignment.policy import Policy, PolicyName
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.hooks.spark_connect import SparkAddress, SparkConnectHook
from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.integration.airflow_api.airflow_names import AirflowException, AirflowFailException, conf
from airflow_provider.integration.airflow_api.task_instance import OVER, TOLD_TO_END, TaskPage
from airflow_provider.integration.group_task import GroupTask
from airflow_provider.integration.lineage_events.lineage import UNTOLD, facets_of, lineage_teller, with_lineage
from airflow_provider.integration.linking import FollowedLink
from airflow_provider.integration.links import SparkGroupLink, group_link, show_link
from airflow_provider.integration.memberships.group_protocols import (
    Coordinators,
    GroupProtocolName,
    check_goes_together,
    offered_by_default,
)
from airflow_provider.integration.memberships.worker_values import (
    WorkerSpec,
    WorkerStory,
    default_worker_name,
    watching,
)
from airflow_provider.integration.operator_parameters.parameters import (
    TimeSpan,
    allowed_applications,
    allowed_conf,
    allowed_servers,
    checkpoint_root,
    choice,
    group_name,
    is_template,
    milliseconds,
    number_of_slots,
    prefixes,
    spark_master,
    text,
    text_mapping,
    whole_number,
    worker_name,
)
from airflow_provider.integration.task_failures.patience import waited_out
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.operators.seen_groups import groups_in_words
from airflow_provider.operators.task_process.tries import Tries, tries_of
from airflow_provider.operators.task_process.worker_run import WorkerRun
from airflow_provider.operators.worker_options import (
    Deferred,
    Incremental,
    Learners,
    Membership,
    learners_of,
    membership_of,
    policy_of,
    refuse_former,
)
from airflow_provider.spark.connect.server import is_connect
from airflow_provider.state.records import WorkerPhase
from airflow_provider.triggers.may_continue import is_of
from airflow_provider.triggers.worker import WorkerTrigger
from airflow_provider.values.model import ConnectProtocol
from airflow_provider.values.saved import check_saved
from airflow_provider.worker.endings.after_ending import Finding, Next, Process, what_next
from airflow_provider.worker.endings.ending import Ending
from airflow_provider.worker.equipment import (
    DEFAULT_MAX_SPARK_DEATHS,
    DEFAULT_PROGRESS_S,
    DEFAULT_SPARK_MASTER,
    RUNNERS,
    Equipment,
)
from airflow_provider.worker.settings import Until

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.definitions.mappedoperator import OperatorPartial

    from airflow_provider.state.views.status_view import StatusSnapshot

__all__ = ["Deferred", "Incremental", "Learners", "Membership", "SparkWorkerOperator"]

_WITHOUT_TRIGGERER_S: Final = 600.0
"""How long a process watches at least what its triggerer could not watch, before the triggerer tries again."""
_SAME_NAME: Final = (
    "No two workers of a group may share a name: if runs of this DAG can overlap, set max_active_runs=1 (a backfill has"
    " its own), or put the run's id into the parameter group"
)


class SparkWorkerOperator(GroupTask):
    """One worker of a group: it runs the Spark tasks that the group's leader assigns to it.

    The task's process stays as long as Spark tasks run in it. When it has had nothing to run for ``linger``, the
    operator defers: the membership continues in the triggerer, takes part in rebalances there, and returns when there
    is work. If the process is killed, Airflow's retry comes back as the same worker, and keeps its tasks if it is back
    within ``session_timeout``. So give it ``retries`` and a short ``retry_delay``.

    A user who ends the task (marks it, clears it) ends the worker: its Spark tasks are stopped and it leaves the group.

    :param group: the group to join; part of its topics' names
    :param allowed_entry_points: packages or modules that jobs may be imported from. This is the trust boundary: within
        these, whoever may write to the group's jobs topic decides what runs here
    :param allowed_session_conf: settings of Spark that jobs may have besides the usual ones (``docs/job-authors.md``),
        as patterns such as ``spark.sql.iceberg.*``; never those of file systems, catalogs and classes
    :param allowed_applications: of what the Spark applications may be made that jobs submit: folders, masters and Maven
        packages (``docs/ready-made-jobs.md``); by default no application is allowed
    :param worker: the worker's name in the group (its group instance id). It must stay the same over retries, deferrals
        and restarts, and no two workers of a group may share it. By default ``<dag_id>.<task_id>``, with
        ``.<map_index>`` if mapped, so the next run of the DAG has the same workers. If runs can overlap, set
        ``max_active_runs=1`` (a backfill has its own), or put the run's id into ``group``
    :param slots: how many Spark tasks it runs at the same time; further assigned tasks wait
    :param until: when to leave. ``drained``: when every job of the group is bounded and complete; ``forever``: only
        when told
    :param kafka_conn_id: a connection of type ``kafka``
    :param runner: ``local``: one Spark in this task's process that its Spark tasks share, or with Spark Connect a
        session for each of them; ``noop``: runs nothing, to try out groups
    :param spark_master: Spark's master URL, or that of a Spark Connect server:
        ``sc://host:port``. Such a worker needs no Java; see ``docs/spark-connect.md``
    :param spark_conn_id: in place of ``spark_master``: a connection of type ``spark_connect``, whose password is the
        server's token
    :param allowed_spark_servers: URLs of Spark Connect servers, besides its own, that this worker may call to end
        streams of the group that have run there
    :param detach: streams on a Spark Connect server, and applications whose driver runs on a cluster, keep running
        without this task's process, which is needed only to start them; see ``docs/detached.md``
    :param spark_conf: Spark's settings; with Spark Connect those of each session
    :param checkpoint_root: folder or URI of all streaming checkpoints, the same for all workers of the group. Without
        it tasks of streaming jobs fail. ``temporary``, for trials: a folder among the machine's temporary files
    :param max_spark_deaths: a Spark task may fail when Spark or the process has ended this often while it ran
    :param progress_interval: shortest time between two progress reports of a Spark task, in the log and in the group's
        topics
    :param linger: how long to keep the process when there is nothing to run, from the end or the move of its last task,
        or from the time when it joined the group
    :param idle_timeout: fail, without retries, when no worker of the group has had anything to run for this long: the
        group has no jobs (perhaps its name is mistyped), or none with anything left to run. A worker without tasks does
        not fail while others run theirs. By default there is no limit
    :param membership: its timeouts as a member of the group, and who coordinates a declarative one; by default
        ``Membership()``
    :param policy: how an imbalance is resolved while this worker leads the group; give all workers the same.
        ``deferred``: lost tasks wait up to 5 minutes for their worker, and tasks above a worker's share move in one
        round; ``immediate``: nothing waits; or with settings: ``Deferred(...)``, ``Incremental(...)``. How to choose:
        ``docs/policies.md``
    :param group_protocol: ``classic``: Kafka's group protocol, in rounds; ``connect``: a declarative group, in which
        each worker moves its own tasks and waits for nobody else. Give all workers of the group the same. Processes
        that hold such workers may also coordinate groups, with their own session timeout and heartbeat interval. The
        default is ``[cooperative_spark] default_group_protocol``, or ``classic`` if that is not set, and always
        ``classic`` with ``connect_protocol="extensible"`` or ``learners``
    :param connect_protocol: ``extensible``: a task that has something to warm up, as streams have, is learned by its
        new worker before it moves; or ``sessioned``, ``compatible`` or ``eager``, as in Connect's ``connect.protocol``.
        The default is ``extensible`` in a classic group, and ``sessioned`` in a declarative one
    :param learners: how much is learned at a time, and for how long; by default ``Learners()``

    All times are timedeltas, or seconds.

    Returns a summary: ``group``, ``worker``, ``ended`` (how), ``finished`` and ``failed`` (the Spark tasks that ended
    here), ``stopped`` (how often one was stopped here), ``first_epoch``, ``last_epoch``, ``deferrals``. A Spark task
    that fails does not fail its worker: wait for the job with a ``JobSensor``.
    """

    template_fields: Sequence[str] = (
        "group",
        "worker",
        "allowed_entry_points",
        "allowed_session_conf",
        "allowed_applications",
        "slots",
        "kafka_conn_id",
        "spark_master",
        "spark_conn_id",
        "allowed_spark_servers",
        "spark_conf",
        "checkpoint_root",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"spark_conf": "json"}
    operator_extra_links = (SparkGroupLink(),)
    ui_color = "#f5d9c2"

    def __init__(
        self,
        *,
        group: str,
        allowed_entry_points: str | Sequence[str],
        allowed_session_conf: str | Sequence[str] = (),
        allowed_applications: str | Sequence[str] = (),
        worker: str | None = None,
        slots: int | str = 2,
        until: str = Until.DRAINED.value,
        kafka_conn_id: str = SparkGroupHook.default_conn_name,
        runner: str = "local",
        spark_master: str = DEFAULT_SPARK_MASTER,
        spark_conn_id: str | None = None,
        allowed_spark_servers: str | Sequence[str] = (),
        detach: bool = True,
        spark_conf: Mapping[str, Any] | str | None = None,
        checkpoint_root: str | None = None,
        max_spark_deaths: int = DEFAULT_MAX_SPARK_DEATHS,
        progress_interval: TimeSpan = timedelta(seconds=DEFAULT_PROGRESS_S),
        linger: TimeSpan = timedelta(seconds=5),
        idle_timeout: TimeSpan | None = None,
        membership: Membership | None = None,
        policy: Deferred | Incremental | str = PolicyName.DEFERRED.value,
        group_protocol: str | None = None,
        connect_protocol: str | None = None,
        learners: Learners | None = None,
        **kwargs: Any,
    ) -> None:
        refuse_former(kwargs)
        super().__init__(**kwargs)
        self.group = group
        self.allowed_entry_points = allowed_entry_points
        self.allowed_session_conf = allowed_session_conf
        self.allowed_applications = allowed_applications
        self.worker = worker
        self.slots = slots
        self.until = until
        self.kafka_conn_id = kafka_conn_id
        self.runner = runner
        self.spark_master = spark_master
        self.spark_conn_id = spark_conn_id
        self.allowed_spark_servers = allowed_spark_servers
        self.detach = detach
        self.spark_conf = spark_conf or {}
        self.checkpoint_root = checkpoint_root
        self.max_spark_deaths = max_spark_deaths
        self.progress_interval = progress_interval
        self.linger = linger
        self.idle_timeout = idle_timeout
        self.membership = membership
        self.policy = policy
        self.group_protocol = group_protocol
        self.connect_protocol = connect_protocol
        self.learners = learners
        self.group_link = ""
        self._lineage = UNTOLD
        self._run: WorkerRun | None = None
        self._killed = False
        self._least_linger_s = 0.0
        self._check()

    # ---- parameters

    @classmethod
    def partial(cls, **kwargs: Any) -> OperatorPartial:
        refuse_former(kwargs)
        return super().partial(**kwargs)

    def _check(self) -> None:
        """Refuse at parse time what is wrong whatever the templates render to."""
        for check, value in (
            (group_name, self.group),
            (worker_name, self.worker or "default"),
            (lambda value: prefixes("allowed_entry_points", value), self.allowed_entry_points),
            (allowed_conf, self.allowed_session_conf),
            (allowed_applications, self.allowed_applications),
            (allowed_servers, self.allowed_spark_servers),
            (number_of_slots, self.slots),
            (lambda value: text("kafka_conn_id", value), self.kafka_conn_id),
            (spark_master, self.spark_master),
            (lambda value: text("spark_conn_id", value), self.spark_conn_id or SparkConnectHook.default_conn_name),
            (lambda value: text_mapping("spark_conf", value), self.spark_conf),
            (checkpoint_root, self.checkpoint_root),
        ):
            if not is_template(value):
                check(value)
        if self.runner not in RUNNERS:
            raise ValueError(f"runner: {self.runner!r} must be one of {', '.join(RUNNERS)}")
        if self.spark_conn_id is not None and self.spark_master != DEFAULT_SPARK_MASTER:
            raise ValueError("spark_conn_id: it names the server, so leave spark_master out")
        choice("until", self.until, Until)
        milliseconds("linger", self.linger)
        milliseconds("progress_interval", self.progress_interval, least_ms=1_000)
        whole_number("max_spark_deaths", self.max_spark_deaths, least=1)
        self._idle_timeout_ms()
        check_goes_together(self._group_protocol(), self._member(group="group", worker="worker", url=""))
        self._policy()

    def _idle_timeout_ms(self) -> int | None:
        return None if self.idle_timeout is None else milliseconds("idle_timeout", self.idle_timeout, least_ms=1)

    def _group_protocol(self) -> GroupProtocolName:
        """The group protocol. Who asks for learners needs a classic group, whatever the configured default is."""
        if self.group_protocol is not None:
            return choice("group_protocol", self.group_protocol, GroupProtocolName)
        if self.connect_protocol == ConnectProtocol.EXTENSIBLE.value or self.learners is not None:
            return GroupProtocolName.CLASSIC
        default = conf.get("cooperative_spark", "default_group_protocol", fallback=GroupProtocolName.CLASSIC.value)
        return choice("[cooperative_spark] default_group_protocol", default, GroupProtocolName)

    def _policy(self) -> Policy:
        return policy_of(self.policy, self._connect_protocol())

    def _connect_protocol(self) -> ConnectProtocol:
        if self.connect_protocol is None:
            return offered_by_default(self._group_protocol())
        return choice("connect_protocol", self.connect_protocol, ConnectProtocol)

    def _member(self, *, group: str, worker: str, url: str) -> MemberSettings:
        protocol = self._connect_protocol()
        learners = learners_of(self.learners, protocol)
        return membership_of(self.membership).settings(
            group=group, worker=worker, url=url, protocol=protocol, learners=learners
        )

    def _spec(self, context: Context) -> WorkerSpec:
        ti = context["ti"]
        name = self.worker or default_worker_name(ti)
        return WorkerSpec(
            member=self._member(group=group_name(self.group), worker=worker_name(name), url=ti.log_url),
            slots=number_of_slots(self.slots),
            until=choice("until", self.until, Until),
            policy=self._policy(),
            idle_timeout_ms=self._idle_timeout_ms(),
            group_protocol=self._group_protocol(),
            coordinators=Coordinators(membership_of(self.membership).coordinators),
        )

    def _equipment(self, context: Context) -> Equipment:
        spark = self._spark()
        spark_conf = text_mapping("spark_conf", self.spark_conf)
        return Equipment(
            runner=self.runner,
            allowed=prefixes("allowed_entry_points", self.allowed_entry_points),
            allowed_conf=allowed_conf(self.allowed_session_conf),
            applications=allowed_applications(self.allowed_applications),
            checkpoint_root=checkpoint_root(self.checkpoint_root),
            spark_master=spark.master,
            spark_token=spark.token,
            spark_conn_id=self.spark_conn_id or "",
            allowed_servers=allowed_servers(self.allowed_spark_servers),
            detach=bool(self.detach),
            spark_conf=spark_conf if is_connect(spark.master) else with_lineage(spark_conf, context),
            max_spark_deaths=whole_number("max_spark_deaths", self.max_spark_deaths, least=1),
            progress_s=milliseconds("progress_interval", self.progress_interval, least_ms=1_000) / 1000,
            linger_s=max(milliseconds("linger", self.linger) / 1000, self._least_linger_s),
        )

    def _spark(self) -> SparkAddress:
        if self.spark_conn_id is not None:
            return SparkConnectHook(text("spark_conn_id", self.spark_conn_id)).get_address()
        return SparkAddress(master=spark_master(self.spark_master))

    # ---- its life

    def execute(self, context: Context) -> dict[str, Any]:
        spec = self._spec(context)
        self._check_before_joining(context, spec)
        self.log.info("Worker %s joins group %s", spec.member.worker, spec.member.group_id)
        return self._work(context, spec, WorkerStory(began_ms=wall_ms()), tries_of(self, context["ti"]), saved=None)

    def resume(self, context: Context, event: Any = None) -> dict[str, Any] | None:
        """Continue after the trigger's event: with the same membership if there is work, otherwise to the end."""
        if not isinstance(event, Mapping):  # dag.test() resumes the task even after an event that has ended it
            return None
        spec, story = self._spec(context), WorkerStory.from_json(event["story"])
        tries = tries_of(self, context["ti"])
        self.group_link = event.get("link", "")
        check_saved(event, "event of a WorkerTrigger")
        ending = Ending(event["ending"])
        then = what_next(Process.TASK, ending, self._found(spec, ending))
        if lacks := event.get("lacks"):
            self.log.warning(
                "The triggerer can't watch what runs for this worker, so this process does. The triggerer says: %s",
                lacks,
            )
            self._least_linger_s = _WITHOUT_TRIGGERER_S
        if then is Next.GO_ON:
            self.log.info("Worker %s continues in this process, from epoch %s", event["worker"], event["epoch"])
            return self._work(context, spec, story, tries, saved=event["saved"])
        if then is Next.JOIN:
            self.log.info("Worker %s was held in two triggerers; it joins again as a new member", event["worker"])
            return self._work(context, spec, story, tries, saved=None)
        return self._end(spec, ending, then, event["error"], event["summary"])

    def get_openlineage_facets_on_complete(self, _task_instance: Any) -> Any:
        """The datasets that the Spark tasks that finished in this process have read and written."""
        return facets_of(self._lineage.named)

    def on_kill(self) -> None:
        """Ask the worker to leave; :meth:`execute` then ends. It runs inside a signal handler, so takes no locks."""
        self._killed = True
        if self._run is not None:
            self._run.leave()

    def _work(
        self, context: Context, spec: WorkerSpec, story: WorkerStory, tries: Tries, saved: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        kafka = SparkGroupHook(self.kafka_conn_id).get_settings()
        link = FollowedLink(self.group_link, lambda link: asyncio.to_thread(show_link, self, context, link))
        self._lineage = lineage_teller(context, spec.member.group_id)
        equipment = self._equipment(context)
        self._run = self._make_run(spec, equipment, kafka, story, saved, tries, link, self._lineage)
        if self._killed:  # before there was a run to tell
            if saved is None:
                raise AirflowException(f"worker {spec.member.worker}: {TOLD_TO_END}, before it joined the group")
            self._run.leave()
        result = self._run.run()
        self.group_link = group_link(result.status) or self.group_link  # the last leader's, if all have left
        outcome = result.outcome
        if result.then is Next.DEFER:
            self.log.info(
                "Worker %s has nothing that needs this process: the triggerer takes over its membership",
                spec.member.worker,
            )
            self.defer(
                trigger=WorkerTrigger(
                    kafka_conn_id=self.kafka_conn_id,
                    plan=watching(spec, equipment, result.status).to_json(),
                    saved=outcome.saved or {},
                    story=result.story.deferred().to_json(),
                    deferred_at_ms=wall_ms(),
                    push_summary=bool(self.do_xcom_push),
                    ends_task=not self.outlets,
                    link=self.group_link,
                ),
                method_name="resume",
            )
        summary = result.story.summary(spec, outcome.ending, result.status)
        return self._end(spec, outcome.ending, result.then, result.error, summary)

    _make_run = WorkerRun

    def _check_before_joining(self, context: Context, spec: WorkerSpec) -> None:
        """Before joining, show the link to the group, and make sure that no other task has this worker's name.

        :raises AirflowFailException: if another task instance has it, and still runs
        """
        status = self._status(spec)
        if status is None:
            return
        show_link(self, context, group_link(status))
        me = spec.member.worker
        if status.group is None or me not in status.group.members or me not in status.workers:
            return
        if status.workers[me].state is WorkerPhase.LEFT:
            return  # it left, and no assignment was made without it since
        mine, other = TaskPage.of(spec.member.url), TaskPage.of(status.workers[me].url)
        if mine and other and other != mine and other.airflow == mine.airflow and other.state() not in OVER:
            raise AirflowFailException(
                f"worker: {me!r} is the name of a worker of group {spec.member.group_id!r} that still runs: see"
                f" {status.workers[me].url}. {_SAME_NAME}"
            )

    def _found(self, spec: WorkerSpec, ending: Ending) -> Finding:
        """What must be found out when the trigger has ended in this way.

        When a triggerer stalls, another one takes over its triggers, and may have to join again. The first one is then
        fenced, and its event resumes this task, which was the last one to take the worker's name.
        """
        if ending is Ending.HANDED_OVER:
            return Finding.STAYS
        status = self._status(spec) if ending is Ending.FENCED else None
        if status is not None and is_of(status.workers.get(spec.member.worker), spec.member.url):
            return Finding.OWN
        return Finding.NOTHING

    def _status(self, spec: WorkerSpec) -> StatusSnapshot | None:
        hook, group = SparkGroupHook(self.kafka_conn_id), spec.member.group_id

        def look() -> StatusSnapshot | None:
            if self._killed:
                raise AirflowException(f"worker {spec.member.worker}: {TOLD_TO_END}")
            return hook.look(group, lambda _, status: status)

        return waited_out(look, f"Worker {spec.member.worker}")

    def _end(
        self, spec: WorkerSpec, ending: Ending, then: Next, error: str | None, summary: dict[str, Any]
    ) -> dict[str, Any]:
        self.log.info("Worker %s: %s at epoch %s", spec.member.worker, ending.value, summary["last_epoch"])
        if self._killed and self._run is not None:
            raise AirflowException(f"worker {spec.member.worker}: {self._run.why_ended}; it has left the group")
        if then is Next.SUCCEED:
            return summary
        if then is Next.RETRY:
            raise AirflowException(f"worker {spec.member.worker}: {ending.value}: {error}")
        if ending is Ending.FENCED:
            raise AirflowFailException(
                f"worker {spec.member.worker}: another process has taken its name in group {spec.member.group_id}."
                f" {_SAME_NAME}"
            )
        raise AirflowFailException(f"worker {spec.member.worker}: {error}. {groups_in_words(self.kafka_conn_id)}")
