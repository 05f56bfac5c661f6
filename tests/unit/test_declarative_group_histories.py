"""Whatever happens to a declarative group, it comes to rest with every task at one worker, evenly, and stays there.

Coordinator, cooperative assignor and workers together: workers join, leave with and without a word, jobs change, time
passes, other coordinators take over, at any point of an assignment that is under way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from coordinated import tasks
from hypothesis import given, settings
from hypothesis import strategies as st
from test_declarative_case_studies import ALL, ASSIGNOR, DELAY_MS, Story

from airflow_provider.assignors.model import LeaveReason
from airflow_provider.declarative.model import LEAVING
from airflow_provider.declarative_membership.computing import described
from airflow_provider.protocol.error_codes import KafkaErrorCode
from airflow_provider.protocol.model import NO_TASKS, Tasks

NAMES = st.sampled_from(("W1", "W2", "W3", "W4"))
JOBS = st.sampled_from((
    ALL,
    tasks("AC0", "AT1", "AT2", "AT3", "AT4", "AT5", "BC0", "BT1", "BT2"),
    tasks("BC0", "BT1", "BT2", "CC0", "CT1", "CT2", "CT3"),
    NO_TASKS,
))  # fmt: skip
_TIMES_UNTIL_AT_REST = 12


def joins(story: Story, name: str) -> None:
    if name not in story.workers:
        story.joins(name)


def leaves(story: Story, name: str) -> None:
    if name in story.workers:
        story.shard.leave(story.workers.pop(name).member_id)


def leaves_for_good(story: Story, name: str) -> None:
    worker = story.workers.pop(name, None)
    if worker is not None:
        last_words = replace(worker.facts, leaving=LeaveReason.STOPPED)
        story.shard.heartbeat(worker.member_id, LEAVING, client_assignors=described((ASSIGNOR,), last_words))


def plans(story: Story, configured: Tasks) -> None:
    story.shard.read_jobs(configured)


def waits(story: Story, ms: int) -> None:
    story.pass_time(ms)


def computes(story: Story, _: None = None) -> None:
    for worker in story.workers.values():
        if worker.heartbeat().error_code == KafkaErrorCode.COMPUTE_ASSIGNMENT:
            worker.compute()


def fails_over(story: Story, _: None = None) -> None:
    if story.shard.coordinator.groups:
        story.shard.fail_over()


def comes_to_rest(story: Story, _: None = None) -> None:
    for _turn in range(_TIMES_UNTIL_AT_REST):
        computes(story)
    story.beat()


Step = tuple[Callable[[Story, object], None], object]
STEPS: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.sampled_from((joins, leaves, leaves_for_good)), NAMES),
    st.tuples(st.just(plans), JOBS),
    st.tuples(st.just(waits), st.integers(1, DELAY_MS // 20)),
    st.tuples(st.sampled_from((computes, fails_over)), st.none()),
    st.tuples(st.just(comes_to_rest), st.none()),
)


@settings(deadline=None, max_examples=60)
@given(steps=st.lists(STEPS, max_size=12))
def test_it_comes_to_rest_evenly(steps: list[Step]) -> None:
    story = Story()
    for name in ("W1", "W2", "W3"):
        story.joins(name)
    comes_to_rest(story)
    for happens, to_what in steps:
        happens(story, to_what)
    joins(story, "W1")
    comes_to_rest(story)
    if story.shard.group.target.delayed:
        story.pass_time(DELAY_MS)
        comes_to_rest(story)
    group = story.shard.group
    assert not group.target.delayed
    epoch = int(group.epoch)
    assert group.target.epoch == epoch
    for worker in story.workers.values():
        current = group.current[worker.member_id]
        assert current.epoch == epoch
        assert current.assigned == group.target.of(worker.member_id).tasks == worker.owned
    owned = [worker.owned for worker in story.workers.values()]
    assert NO_TASKS.union(*owned) == group.configured
    for kind in (True, False):
        loads = [sum(task.is_planner is kind for task in share) for share in owned]
        assert max(loads) - min(loads) <= 1
    story.pass_time(20_000)
    assert story.shard.group.epoch == epoch, "nothing has happened, so nothing changes"
