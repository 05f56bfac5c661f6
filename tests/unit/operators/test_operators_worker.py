"""The operator of workers, up to the seam where a worker runs or a group is asked."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import Asset, Connection
from airflow_values import URL, context, group_snapshot, job, jobs_snapshot, status_snapshot, worker_status
from operator_bench import SETTINGS, FakeGroup, FakeRun, outcome, worker_operator

from airflow_provider.assignment import policy
from airflow_provider.hooks.spark_connect import SparkConnectHook
from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.integration.airflow_api.airflow_names import AirflowException, AirflowFailException, TaskDeferred
from airflow_provider.integration.airflow_api.task_instance import TaskPage
from airflow_provider.integration.memberships.worker_values import WorkerStory
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.operators import spark_worker
from airflow_provider.operators.spark_worker import Deferred, Incremental, Learners, Membership, SparkWorkerOperator
from airflow_provider.operators.task_process.worker_run import RunResult
from airflow_provider.spark.connect.server import ConnectServer
from airflow_provider.state.records import TaskState, WorkerPhase
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.triggers.worker import WorkerTrigger
from airflow_provider.values.model import ConnectProtocol, TaskId, WorkerId
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.endings.ending import Ending, Outcome


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> FakeGroup:
    return FakeGroup(monkeypatch)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, group: FakeGroup) -> type[FakeRun]:
    class Run(FakeRun):
        endings: list[Outcome] = []  # noqa: RUF012
        made: list[FakeRun] = []  # noqa: RUF012
        status = group_snapshot(3)

    monkeypatch.setattr(SparkWorkerOperator, "_make_run", Run)
    return Run


class TestWorkerOperator:
    def test_its_name_stays_the_same_over_tries_and_runs(self, runs: type[FakeRun]) -> None:
        for changes in ({}, {"try_number": 3}, {"run_id": "r2"}):
            runs.endings.append(outcome(Ending.DRAINED))
            worker_operator().execute(context(dag_id="d", task_id="w", **changes))
        runs.endings.append(outcome(Ending.DRAINED))
        worker_operator().execute(context(dag_id="d", task_id="w", map_index=4))
        assert [run.spec.member.worker for run in runs.made] == ["d.w"] * 3 + ["d.w.4"]

    def test_times_go_to_the_membership_in_milliseconds(self, runs: type[FakeRun]) -> None:
        runs.endings.append(outcome(Ending.DRAINED))
        worker_operator(
            membership=Membership(session_timeout=30, heartbeat_interval=timedelta(seconds=2), rebalance_timeout=90),
            policy=Deferred(max_delay=timedelta(minutes=1)),
            linger=0.5,
            progress_interval=90,
            slots="4",
        ).execute(context())
        (run,) = runs.made
        assert (run.spec.member.session_timeout_ms, run.spec.member.heartbeat_interval_ms) == (30_000, 2_000)
        assert (run.spec.member.rebalance_timeout_ms, run.spec.policy) == (90_000, policy.Deferred(max_delay_ms=60_000))
        assert (run.equipment.linger_s, run.equipment.progress_s, run.spec.slots) == (0.5, 90, 4)
        assert run.spec.member.url == URL

    @pytest.mark.parametrize(
        ("parameters", "expected"),
        [
            ({}, policy.Deferred(max_delay_ms=300_000)),
            ({"policy": "deferred"}, policy.Deferred(max_delay_ms=300_000)),
            ({"policy": "immediate"}, policy.IMMEDIATE),
            ({"policy": Incremental(max_moves=50)}, policy.Incremental(max_moves=50)),
        ],
    )
    def test_the_policy_goes_to_the_membership(
        self, runs: type[FakeRun], parameters: dict[str, Any], expected: policy.Policy
    ) -> None:
        runs.endings.append(outcome(Ending.DRAINED))
        worker_operator(**parameters).execute(context())
        assert runs.made[0].spec.policy == expected

    def test_its_trigger_is_given_their_settings_one_by_one_as_they_are_stored(self, runs: type[FakeRun]) -> None:
        """Triggers of other releases have the same keys, and none of them knows a value of a DAG file."""
        runs.endings.append(outcome(Ending.HANDED_OVER, saved={"v": 1}))
        with pytest.raises(TaskDeferred) as deferred:
            worker_operator(
                membership=Membership(
                    session_timeout=30, heartbeat_interval=2, rebalance_timeout=90, coordinators="dedicated"
                ),
                policy=Incremental(max_moves=50, move_interval=10, max_delay=60),
                connect_protocol="extensible",
                learners=Learners(learned="at-rebalance", per_worker=2, per_group=9, ready_from=0.5, timeout=60),
            ).execute(context(dag_id="d", task_id="w"))
        trigger = deferred.value.trigger
        assert isinstance(trigger, WorkerTrigger)
        assert trigger.serialize()[1]["plan"] == {
            "v": 1,
            "group": "g",
            "worker": "d.w",
            "url": URL,
            "protocol": "extensible",
            "learned": "at-rebalance",
            "limits": {"per_worker": 2, "per_group": 9, "ready_from": 0.5, "longest_ms": 60_000},
            "session_timeout_ms": 30_000,
            "heartbeat_interval_ms": 2_000,
            "rebalance_timeout_ms": 90_000,
            "lease_margin_ms": 2_000,
            "max_delay_ms": 60_000,
            "policy": {"name": "incremental", "max_moves": 50, "move_interval_ms": 10_000, "max_delay_ms": 60_000},
            "slots": 2,
            "until": "drained",
            "idle_timeout_ms": None,
            "group_protocol": "classic",
            "coordinators": "dedicated",
        }

    def test_drained_it_returns_a_summary(self, runs: type[FakeRun]) -> None:
        runs.endings.append(outcome(Ending.DRAINED))
        known = jobs_snapshot(job(), tasks=3)
        tasks = status_snapshot(known, "job", TaskState.FINISHED, TaskState.FAILED, TaskState.FINISHED, worker="d.w")
        runs.status = StatusSnapshot(tasks={task: _ended_now(status) for task, status in tasks.tasks.items()})
        assert worker_operator().execute(context(dag_id="d", task_id="w")) == {
            "group": "g",
            "worker": "d.w",
            "ended": "drained",
            "finished": [["job", 0], ["job", 2]],
            "failed": {"job:1": "no luck with 1"},
            "stopped": 1,
            "first_epoch": 1,
            "last_epoch": 3,
            "deferrals": 0,
        }

    def test_with_nothing_to_run_it_defers_and_goes_on_with_the_same_membership(self, runs: type[FakeRun]) -> None:
        runs.endings += [outcome(Ending.HANDED_OVER, saved={"v": 1, "member": {"a": 1}}), outcome(Ending.DRAINED)]
        operator = worker_operator(kafka_conn_id="broker", until="forever")
        with pytest.raises(TaskDeferred) as deferred:
            operator.execute(context(dag_id="d", task_id="w"))
        assert operator.group_link == URL
        trigger = deferred.value.trigger
        assert isinstance(trigger, WorkerTrigger)
        assert trigger.kafka_conn_id == "broker"
        assert trigger.spec == runs.made[0].spec
        assert trigger.story.deferrals == 1

        event = {
            "v": 1,
            "worker": "d.w",
            "epoch": 5,
            "ending": "handed over",
            "error": None,
            "saved": {"v": 1, "member": {"a": 2}},
            "story": trigger.story.to_json(),
            "summary": {},
        }
        fresh = worker_operator(kafka_conn_id="broker", until="forever")
        summary = getattr(fresh, deferred.value.method_name)(context(dag_id="d", task_id="w"), event=event)
        assert runs.made[1].saved == {"v": 1, "member": {"a": 2}}
        assert (summary["deferrals"], summary["stopped"]) == (1, 2)

    def test_its_trigger_knows_how_to_watch_what_goes_on_and_no_secret(self, runs: type[FakeRun]) -> None:
        runs.endings.append(outcome(Ending.HANDED_OVER, saved={"v": 1, "member": {}}))
        operator = worker_operator(spark_master="sc://host:15002", until="forever")
        with pytest.raises(TaskDeferred) as deferred:
            operator.execute(context(dag_id="d", task_id="w"))
        trigger = deferred.value.trigger
        assert isinstance(trigger, WorkerTrigger)
        assert trigger.spec.watches is not None
        assert str(ConnectServer.parse(trigger.spec.watches.server)) == "sc://host:15002"
        assert runs.made[0].equipment.detach

    @pytest.mark.parametrize(("ending", "error"), [("fenced", AirflowFailException), ("failed", AirflowException)])
    def test_a_membership_that_ends_badly_fails_the_task(
        self, ending: str, error: type[Exception], runs: type[FakeRun]
    ) -> None:
        runs.endings.append(outcome(Ending(ending), error="the coordinator said no"))
        with pytest.raises(
            error, match=r"dag\.task: (another process has taken its name|failed: the coordinator said no)"
        ):
            worker_operator().execute(context())

    def test_fenced_by_itself_in_another_triggerer_it_joins_anew(self, runs: type[FakeRun], group: FakeGroup) -> None:
        record = _worker("dag.task", "http://airflow.example/dags/d/runs/r1/tasks/w?try_number=2")
        group.status = StatusSnapshot(workers={WorkerId("dag.task"): record})
        event = {
            "v": 1,
            "ending": "fenced",
            "worker": "dag.task",
            "error": "another process joined",
            "story": WorkerStory(began_ms=1).to_json(),
            "summary": {"last_epoch": 3},
        }
        runs.endings.append(outcome(Ending.DRAINED))
        summary = worker_operator().resume(context(), event=event)
        assert summary is not None
        assert summary["ended"] == "drained"
        assert runs.made[0].saved is None
        other = _worker("dag.task", "http://airflow.example/dags/d/runs/r2/tasks/w?try_number=1")
        group.status = StatusSnapshot(workers={WorkerId("dag.task"): other})
        with pytest.raises(AirflowFailException, match="max_active_runs"):
            worker_operator().resume(context(), event=event)

    def test_while_something_of_it_still_runs_in_this_process_it_does_not_join_anew_there(
        self, runs: type[FakeRun]
    ) -> None:
        """It would be given the task again, and a new runner knows nothing of the copy that does not stop."""
        stuck = frozenset({TaskId("job", 1)})
        runs.endings.append(outcome(Ending.FENCED, error="another process joined", still_running=stuck))
        with pytest.raises(AirflowException, match=r"still running: job:1.*its next try joins again") as raised:
            worker_operator().resume(context(), event=_handed_over())
        assert not isinstance(raised.value, AirflowFailException), "there is to be a next try"
        assert len(runs.made) == 1

    @pytest.mark.parametrize(
        ("url", "state", "refused"),
        [
            ("http://airflow.example/dags/d/runs/r2/tasks/w?try_number=1", "deferred", True),
            ("http://airflow.example/dags/d/runs/r2/tasks/w?try_number=1", "failed", False),
            ("http://airflow.example/dags/d/runs/r1/tasks/w?try_number=9", "running", False),
            ("http://elsewhere.example/dags/d/runs/r2/tasks/w?try_number=1", "running", False),
            ("process://host/12", "running", False),
        ],
        ids=["another run", "a run that is over", "an earlier try", "another Airflow", "no Airflow"],
    )
    def test_a_name_that_another_run_has_is_refused_before_it_is_taken(
        self,
        *,
        url: str,
        state: str,
        refused: bool,
        runs: type[FakeRun],
        group: FakeGroup,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(TaskPage, "state", lambda _page: state)
        group.status = replace(group_snapshot(3), workers={WorkerId("w1"): _worker("w1", url)})
        runs.endings.append(outcome(Ending.DRAINED))
        operator = worker_operator(worker="w1")
        if refused:
            with pytest.raises(AirflowFailException, match=r"max_active_runs=1 \(a backfill has its own\)"):
                operator.execute(context())
            assert not runs.made
        else:
            operator.execute(context())
            assert len(runs.made) == 1

    def test_a_name_is_free_when_the_worker_that_had_it_has_left(
        self, runs: type[FakeRun], group: FakeGroup, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The last one to leave a group makes no assignment without itself; Airflow takes seconds to end its task."""
        monkeypatch.setattr(TaskPage, "state", lambda _page: "running")
        left = _worker("w1", "http://airflow.example/dags/d/runs/r2/tasks/w?try_number=1", WorkerPhase.LEFT)
        group.status = replace(group_snapshot(3), workers={WorkerId("w1"): left})
        runs.endings.append(outcome(Ending.DRAINED))
        worker_operator(worker="w1").execute(context())
        assert len(runs.made) == 1

    def test_the_link_to_the_group_is_there_while_the_worker_runs(self, runs: type[FakeRun], group: FakeGroup) -> None:
        group.status = group_snapshot(3)
        runs.endings.append(outcome(Ending.DRAINED))
        around = context()
        worker_operator().execute(around)
        assert around["ti"].pushed == {"_link_SparkGroupLink": URL}
        assert runs.made[0].link.shown == URL, "and follows the leader from there"

    def test_killed_it_leaves_and_does_not_pretend_to_have_succeeded(
        self, runs: type[FakeRun], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        operator = worker_operator()
        operator.on_kill()  # before it has begun: nothing to leave

        operator = worker_operator()
        made = runs.made
        runs.endings.append(outcome(Ending.LEFT))
        original = FakeRun.run

        def killed_while_it_runs(run: FakeRun) -> RunResult:
            operator.on_kill()
            return original(run)

        monkeypatch.setattr(runs, "run", killed_while_it_runs)
        with pytest.raises(AirflowException, match="its task was marked failed; it has left the group"):
            operator.execute(context())
        assert made[-1].left

    def test_killed_before_it_has_joined_it_does_not_join(
        self, runs: type[FakeRun], group: FakeGroup, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It reads the group's topics first, which takes a second and more."""
        operator = worker_operator()

        def killed_meanwhile(_hook: SparkGroupHook, _group: str, _read: object) -> None:
            operator.on_kill()

        monkeypatch.setattr(SparkGroupHook, "look", killed_meanwhile)
        with pytest.raises(AirflowException, match="told to end, and no user has ended its task, before it joined"):
            operator.execute(context())

    def test_killed_before_it_goes_on_with_a_membership_it_leaves(
        self, runs: type[FakeRun], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        operator = worker_operator()

        def killed_meanwhile(_hook: SparkGroupHook) -> KafkaSettings:
            operator.on_kill()
            return SETTINGS

        monkeypatch.setattr(SparkGroupHook, "get_settings", killed_meanwhile)
        runs.endings.append(outcome(Ending.LEFT))
        with pytest.raises(AirflowException, match="it has left the group"):
            operator.resume(context(), event=_handed_over())
        assert runs.made[0].left

    def test_with_outlets_it_ends_on_a_worker(self, runs: type[FakeRun]) -> None:
        ends = []
        for outlets in ([], [Asset("counts")]):
            runs.endings.append(outcome(Ending.HANDED_OVER, saved={"v": 1}))
            with pytest.raises(TaskDeferred) as deferred:
                worker_operator(outlets=outlets).execute(context())
            assert isinstance(deferred.value.trigger, WorkerTrigger)
            ends.append(deferred.value.trigger.ends_task)
        assert ends == [True, False]

    @pytest.mark.parametrize(("given", "root"), [({}, None), ({"checkpoint_root": "temporary"}, "temporary")])
    def test_where_checkpoints_go_nobody_knows_better_than_the_author(
        self, runs: type[FakeRun], given: dict[str, str], root: str | None
    ) -> None:
        runs.endings.append(outcome(Ending.DRAINED))
        worker_operator(**given).execute(context())
        assert runs.made[0].equipment.checkpoint_root == root

    def test_a_folder_that_each_process_would_find_elsewhere_is_refused(self, runs: type[FakeRun]) -> None:
        with pytest.raises(ValueError, match=r"^checkpoint_root: 'checkpoints' is neither an absolute path"):
            worker_operator(checkpoint_root="checkpoints")
        rendered = worker_operator(checkpoint_root="{{ params.root }}")
        rendered.checkpoint_root = "checkpoints"
        with pytest.raises(AirflowFailException, match=r"^checkpoint_root: 'checkpoints' is neither an absolute path"):
            rendered.execute(context())

    def test_having_waited_in_vain_it_fails_without_retries_and_names_the_groups_there_are(
        self, runs: type[FakeRun], group: FakeGroup
    ) -> None:
        operator, error = worker_operator(idle_timeout=600), "group g has no jobs yet: waited 600 s"
        group.names = ["etl", "ingest"]
        runs.endings.append(outcome(Ending.IDLE, error=error))
        with pytest.raises(AirflowFailException, match=rf"{error}.*'kafka_default' sees: etl, ingest"):
            operator.execute(context())
        assert runs.made[0].spec.idle_timeout_ms == 600_000
        event = {"v": 1, "ending": "idle", "error": error, "story": WorkerStory(began_ms=1).to_json()}
        with pytest.raises(AirflowFailException, match=error):
            operator.resume(context(), {**event, "summary": {"last_epoch": 3}})

    def test_a_connection_names_its_spark_connect_server_and_only_this_process_knows_the_token(
        self, runs: type[FakeRun], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        server = Connection(conn_id="sc", conn_type="spark_connect", host="spark", password="t0ken")
        monkeypatch.setattr(SparkConnectHook, "get_connection", lambda self, conn_id: server)
        runs.endings += [outcome(Ending.HANDED_OVER, saved={})]
        with pytest.raises(TaskDeferred) as deferred:
            worker_operator(spark_conn_id="sc").execute(context())
        equipment = runs.made[-1].equipment
        assert equipment.spark_master == "sc://spark:15002/;user_id=cospark;use_ssl=false"
        assert equipment.spark_token == "t0ken"
        assert "t0ken" not in repr(equipment) + repr(deferred.value.trigger.serialize()) + repr(deferred.value.kwargs)

    def test_the_settings_of_a_servers_sessions_are_given_no_parent(
        self, runs: type[FakeRun], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its Spark is one for many, and where to send would tell each of them a secret."""
        given = {"spark.openlineage.parentRunId": "mine"}
        monkeypatch.setattr(spark_worker, "with_lineage", lambda spark_conf, context: given)
        for master, conf in (("local[1]", given), ("sc://spark", {})):
            runs.endings.append(outcome(Ending.LEFT))
            worker_operator(spark_master=master).execute(context())
            assert runs.made[-1].equipment.spark_conf == conf

    def test_it_allows_what_its_operator_lets_jobs_set(self, runs: type[FakeRun]) -> None:
        runs.endings.append(outcome(Ending.LEFT))
        worker_operator(allowed_session_conf=["spark.sql.iceberg.*"]).execute(context())
        runs.made[-1].equipment.allowed_conf.check({"spark.sql.iceberg.locality.enabled": "true"})

    def test_it_allows_the_applications_that_its_operator_names(self, runs: type[FakeRun]) -> None:
        runs.endings.append(outcome(Ending.LEFT))
        worker_operator(allowed_applications=["/opt/apps"]).execute(context())
        assert runs.made[-1].equipment.applications.parts == ("/opt/apps",)

    def test_asked_to_go_it_ends_with_success(self, runs: type[FakeRun]) -> None:
        runs.endings.append(outcome(Ending.LEFT))
        assert worker_operator().execute(context())["ended"] == "left"

    @pytest.mark.parametrize(
        ("parameters", "parameter"),
        [
            ({"group": "a b"}, "group"),
            ({"worker": "a/b"}, "worker"),
            ({"allowed_entry_points": []}, "allowed_entry_points"),
            ({"allowed_entry_points": ["*"]}, "allowed_entry_points"),
            ({"allowed_session_conf": ["spark.hadoop.*"]}, "allowed_session_conf"),
            ({"allowed_spark_servers": ["spark:15002"]}, "allowed_spark_servers"),
            ({"allowed_spark_servers": 1}, "allowed_spark_servers"),
            ({"slots": 0}, "slots"),
            ({"slots": 10**9}, "slots"),
            ({"until": "tired"}, "until"),
            ({"runner": "flink"}, "runner"),
            ({"spark_conf": {"a": None}}, "spark_conf"),
            ({"spark_master": ""}, "spark_master"),
            ({"spark_master": "sc://"}, "spark_master"),
            ({"spark_master": "http://host:15002"}, "spark_master"),
            ({"spark_master": "sc://host/;token=abc"}, "spark_master"),
            ({"spark_conn_id": " "}, "spark_conn_id"),
            ({"spark_conn_id": "sc", "spark_master": "sc://host"}, "spark_conn_id"),
            ({"linger": -1}, "linger"),
            ({"progress_interval": 0.5}, "progress_interval"),
            ({"idle_timeout": 0}, "idle_timeout"),
            ({"membership": {"session_timeout": 30}}, "membership"),
            ({"policy": "eventual"}, "policy"),
            ({"policy": "incremental"}, "policy"),
            ({"policy": Deferred}, "policy"),
            ({"policy": Incremental(max_moves=5), "connect_protocol": "eager"}, "policy"),
            ({"learners": Learners(), "connect_protocol": "sessioned"}, "learners"),
            ({"learners": Learners(), "group_protocol": "connect"}, "learners"),
            ({"learners": 4, "connect_protocol": "extensible"}, "learners"),
            ({"connect_protocol": "loud"}, "connect_protocol"),
            ({"group_protocol": "consumer"}, "group_protocol"),
            ({"group_protocol": "connect", "connect_protocol": "extensible"}, "group_protocol"),
            ({"kafka_conn_id": ""}, "kafka_conn_id"),
        ],
    )
    def test_what_is_wrong_is_refused_when_the_dag_is_parsed(self, parameters: Any, parameter: str) -> None:
        with pytest.raises(ValueError, match=f"^{parameter}: "):
            worker_operator(**parameters)

    @pytest.mark.parametrize(
        ("parameters", "protocol"),
        [
            ({}, "connect"),
            ({"group_protocol": "classic"}, "classic"),
            ({"connect_protocol": "extensible"}, "classic"),
            ({"learners": Learners()}, "classic"),
        ],
    )
    def test_the_group_protocol_is_the_configured_one_for_who_does_not_choose(
        self, runs: type[FakeRun], monkeypatch: pytest.MonkeyPatch, parameters: Any, protocol: str
    ) -> None:
        monkeypatch.setenv("AIRFLOW__COOPERATIVE_SPARK__DEFAULT_GROUP_PROTOCOL", "connect")
        runs.endings = [outcome(Ending.DRAINED)]
        worker_operator(**parameters).execute(context())
        assert runs.made[0].spec.group_protocol.value == protocol

    @pytest.mark.parametrize(
        ("parameters", "offered"),
        [
            ({}, ConnectProtocol.EXTENSIBLE),
            ({"connect_protocol": "compatible"}, ConnectProtocol.COMPATIBLE),
            ({"group_protocol": "connect"}, ConnectProtocol.SESSIONED),
        ],
    )
    def test_tasks_are_learned_where_the_group_protocol_can_do_that(
        self, runs: type[FakeRun], parameters: Any, offered: ConnectProtocol
    ) -> None:
        runs.endings = [outcome(Ending.DRAINED)]
        worker_operator(**parameters).execute(context())
        assert runs.made[0].spec.member.protocol is offered

    def test_a_wrong_configuration_is_named_as_such(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AIRFLOW__COOPERATIVE_SPARK__DEFAULT_GROUP_PROTOCOL", "conect")
        with pytest.raises(ValueError, match=r"^\[cooperative_spark\] default_group_protocol: 'conect' must be"):
            worker_operator()


def _ended_now(status: Any) -> Any:
    return replaced(status, finished_at_ms=10**14)


def _worker(name: str, url: str, state: WorkerPhase = WorkerPhase.STABLE) -> Any:
    return replace(worker_status(name, 3, state), url=url)


def _handed_over() -> dict[str, Any]:
    return {
        "v": 1,
        "ending": "handed over",
        "worker": "dag.task",
        "epoch": 3,
        "saved": {"v": 1},
        "story": WorkerStory(began_ms=1).to_json(),
    }
