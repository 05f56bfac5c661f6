"""The operator that has a group get smaller, up to the seam where a group is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from airflow_values import URL, FakeTaskInstance, context, group_record
from operator_bench import SETTINGS
from stand_ins import MemoryTopics

from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.integration import one_shot
from airflow_provider.integration.airflow_api.airflow_names import AirflowFailException, TaskDeferred
from airflow_provider.kafka.topics.errors import NoTopicError, TopicTimeoutError, UnsureError
from airflow_provider.operators.scale_spark_group import ScaleSparkGroupOperator
from airflow_provider.state.records import ControlAction, WorkerPhase, WorkerStatus
from airflow_provider.triggers.conditions import LeaveCondition
from airflow_provider.triggers.group import GroupTrigger
from airflow_provider.values.model import Epoch, WorkerId

W1, W2 = WorkerId("w1"), WorkerId("w2")


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> MemoryTopics:
    """Those of a group of two workers with a task each; the hook's looks see what is in them."""
    made = MemoryTopics("g")
    asyncio.run(made.publish_group(group_record(1)))

    def look(_hook: SparkGroupHook, _group: str, read: Callable[..., Any]) -> Any:
        return read(made.jobs, made.status)

    monkeypatch.setattr(SparkGroupHook, "get_settings", lambda _hook: SETTINGS)
    monkeypatch.setattr(one_shot, "GroupTopics", lambda _settings, _group, _needs: made)
    for name in ("look", "look_now"):
        monkeypatch.setattr(SparkGroupHook, name, look)
    return made


def operator(**parameters: Any) -> ScaleSparkGroupOperator:
    return ScaleSparkGroupOperator(**{"task_id": "t", "group": "g", "kafka_conn_id": "b", **parameters})


def leave(topics: MemoryTopics, worker: WorkerId = W1) -> None:
    async def leaves() -> None:
        left = WorkerStatus(worker=worker, state=WorkerPhase.LEFT, epoch=Epoch(1), slots=1)
        await topics.publish_worker(left)
        if worker in topics.jobs.controls:
            await topics.clear_control(topics.jobs.controls[worker])

    asyncio.run(leaves())


ASKED = {
    "learns": False,
    "asked": ["w1"],
    "going": [],
    "stay": ["w2"],
    "to_move": {"w1": {"slots": 0, "stateful": 0, "running": 0, "tasks": 0}},
}


class PulledTaskInstance(FakeTaskInstance):
    def xcom_pull(self, task_ids: str, map_indexes: int) -> Any:
        assert (task_ids, map_indexes) == ("t", -1)
        return self.pushed.get("return_value")


def airflow() -> Any:
    ti = PulledTaskInstance()
    return {"ti": ti, "task_instance": ti, "run_id": ti.run_id}


@pytest.mark.parametrize(
    "goal", [{"to": "50%"}, {"workers": 1}, {"workers": "1"}, {"without": ["w1"]}, {"without": "w1"}]
)
def test_it_asks_and_tells_who(topics: MemoryTopics, goal: Any) -> None:
    told = operator(**goal, within=timedelta(seconds=90), wait_for_completion=False).execute(context())
    assert told == ASKED
    (wish,) = topics.jobs.controls.values()
    assert (wish.worker, wish.action, wish.within_ms) == (W1, ControlAction.LEAVE_SOON, 90_000)


def test_it_waits_until_they_have_left(topics: MemoryTopics, monkeypatch: pytest.MonkeyPatch) -> None:
    def wait_for(_hook: SparkGroupHook, _group: str, read: Callable[..., Any], *, timeout_s: float | None) -> Any:
        assert timeout_s == 60
        assert read(topics.jobs, topics.status) is None
        leave(topics)
        return read(topics.jobs, topics.status)

    monkeypatch.setattr(SparkGroupHook, "wait_for", wait_for)
    told = operator(to="50%", timeout=60).execute(context())
    assert 0 <= told.pop("seconds") < 60
    assert told == {**ASKED, "left": ["w1"], "still_there": [], "drained": []}


def test_deferred_it_waits_for_those_that_it_has_asked(topics: MemoryTopics) -> None:
    scale = operator(to="50%", deferrable=True, timeout=5)
    with pytest.raises(TaskDeferred) as deferred:
        scale.execute(airflow())
    trigger = deferred.value.trigger
    assert isinstance(trigger, GroupTrigger)
    assert trigger.condition == LeaveCondition(workers=(W1,))
    assert (trigger.kafka_conn_id, trigger.group, deferred.value.timeout) == ("b", "g", timedelta(seconds=5))
    again = GroupTrigger(**trigger.serialize()[1])
    assert again.condition == trigger.condition
    leave(topics)
    answer = again.condition.answer(topics.jobs, topics.status)
    assert answer is not None
    event = {**answer.to_json(), "link": URL, "carried": again.carried}
    told = scale.execute_complete(context(), event)
    assert (told["left"], told["asked"], scale.group_link) == (["w1"], ["w1"], URL)
    assert told["seconds"] >= 0


@pytest.mark.parametrize("deferrable", [True, False])
def test_when_its_time_is_over_it_fails_for_good_and_leaves_who_has_left(
    topics: MemoryTopics, monkeypatch: pytest.MonkeyPatch, deferrable: bool
) -> None:
    """A second try would take half of those that are left."""

    def late(_hook: SparkGroupHook, _group: str, _read: object, *, timeout_s: float | None) -> None:
        raise TopicTimeoutError("waiting for a change")

    monkeypatch.setattr(SparkGroupHook, "wait_for", late)
    scale, around = operator(to="50%", deferrable=deferrable, timeout=5), airflow()
    with pytest.raises(AirflowFailException if not deferrable else TaskDeferred):
        scale.execute(around)
    if deferrable:
        with pytest.raises(AirflowFailException, match=r"not known whether all have left \(timeout: 5\): Trigger"):
            scale.resume_execution("__fail__", {"error": "Trigger timeout"}, around)
    assert around["ti"].pushed["return_value"] == {**ASKED, "left": [], "still_there": ["w1"], "drained": []}


def test_what_fails_after_the_trigger_fails_as_it_does(topics: MemoryTopics) -> None:
    with pytest.raises(KeyError, match="link"):
        operator(to="50%").resume_execution("execute_complete", {"event": {}}, airflow())


@pytest.mark.parametrize(
    ("goal", "problem"),
    [
        ({"workers": 2}, "group 'g': no worker is left to ask: it has 2 workers, and 2 stay"),
        ({"workers": 3}, "group 'g': it has 2 workers, and 3 would be more"),
        ({"without": ["w9"]}, "group 'g': w9: not in it; in it: w1, w2"),
        ({"without": ["w1", "w2"]}, "group 'g': no worker would stay"),
    ],
)
def test_what_can_not_be_done_fails_for_good_and_nobody_is_asked(topics: MemoryTopics, goal: Any, problem: str) -> None:
    with pytest.raises(AirflowFailException, match=problem):
        operator(**goal).execute(context())
    assert not topics.jobs.controls


def test_a_group_that_is_not_there_fails_for_good(topics: MemoryTopics) -> None:
    topics.failing = NoTopicError("g.jobs")
    with pytest.raises(AirflowFailException, match="group 'g': there is no such group"):
        operator(workers=1).execute(context())


def test_if_it_is_not_known_whether_somebody_was_asked_it_fails_for_good(topics: MemoryTopics) -> None:
    topics.failing = UnsureError("b:9", "writing", "no answer")
    with pytest.raises(AirflowFailException, match="It may be stored all the same"):
        operator(workers=1).execute(context())


@pytest.mark.parametrize(
    ("goal", "problem"),
    [
        ({}, "to, workers, without: give one of them"),
        ({"to": "80%", "workers": 4}, "to, workers, without: give one of them"),
        ({"to": "80"}, "to: '80' must be a percentage"),
        ({"to": 80}, "to: 80 must be a text"),
        ({"to": "100%"}, "to: '100%' must be less than 100%"),
        ({"workers": 0}, "workers: 0 would leave no worker"),
        ({"workers": -1}, "workers: -1 must be a whole number"),
        ({"workers": "x"}, "workers: 'x' must be a whole number"),
        ({"without": []}, "without: name the workers that leave"),
        ({"without": {"w1": 1}}, "without: .* must be a list of workers' names"),
        ({"without": ["a b"]}, "'a b' must be 1 to 249 letters"),
        ({"workers": 1, "within": -1}, "within: -1 must be at least 0 s"),
        ({"workers": 1, "timeout": 0}, "timeout: 0 must be at least"),
        ({"workers": 1, "group": "a b"}, "group: 'a b' must be"),
    ],
)
def test_what_is_wrong_whatever_the_group_is_like_is_refused_where_the_dag_is_parsed(goal: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        operator(**goal)


def test_templates_are_looked_at_when_they_are_rendered(topics: MemoryTopics) -> None:
    scale = operator(to="{{ params.to }}", group="{{ params.group }}")
    scale.to, scale.group = "100%", "g"
    with pytest.raises(AirflowFailException, match="to: '100%' must be less than 100%"):
        scale.execute(context())
