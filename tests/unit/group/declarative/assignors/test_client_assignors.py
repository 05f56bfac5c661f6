"""The assignors that workers of a declarative group run: what each member is to have, all of it at once."""

from __future__ import annotations

import pytest
from assigned_group import DeclarativeGroup, ids, jobs, moved
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider.assignment.balancing.pools import above_shares
from airflow_provider.assignment.costs import Costs
from airflow_provider.assignment.model import LeaveReason, Round
from airflow_provider.assignment.policy import IMMEDIATE, Deferred, Incremental
from airflow_provider.group.declarative.assignors import (
    CooperativeAssignor,
    EagerAssignor,
    assignors_offered,
)
from airflow_provider.group.declarative.assignors.client_assignor import (
    NOTHING_SAID,
    ClientSideAssignor,
    Group,
    Reason,
    WorkerFacts,
)
from airflow_provider.group.declarative.assignors.facts import COMPATIBLE, EAGER, SESSIONED, decode_facts, encode_facts
from airflow_provider.group.declarative.assignors.remembered import (
    NOTHING_REMEMBERED,
    Remembered,
    decode_remembered,
    encode_remembered,
)
from airflow_provider.group.declarative.protocol.model import AssignorMetadata
from airflow_provider.values.model import (
    NO_GENERATION,
    NO_TASKS,
    ConnectProtocol,
    GenerationId,
    MemberId,
    TaskId,
    Tasks,
    WorkerId,
)

patient = settings(deadline=None)
DELAY_MS = 300_000
W1, W2, W3 = ids(("w1", "w2", "w3"))
TEN = jobs({"a": 10})
SIZES = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 12), max_size=6)


def three(**settings_: object) -> DeclarativeGroup:
    group = DeclarativeGroup(TEN, **settings_)  # type: ignore[arg-type]
    group.join("w1", "w2", "w3")
    group.assign()
    return group


class TestCosts:
    """Tasks of known costs are shared out by them, in one target."""

    @pytest.mark.parametrize("assignor", [CooperativeAssignor(), EagerAssignor()])
    def test_one_that_takes_long_is_as_much_as_all_others(self, assignor: ClientSideAssignor) -> None:
        group = skewed(assignor)
        by_size = sorted(len([task for task in tasks if not task.is_planner]) for tasks in group.shares.values())
        assert by_size == [1, 4, 5]

    def test_the_same_again_moves_nothing(self) -> None:
        group = skewed(CooperativeAssignor())
        before = group.shares
        group.assign()
        assert group.shares == before

    def test_what_waits_goes_to_who_has_less_left_and_what_runs_stays(self) -> None:
        group = three()
        before = group.shares
        ((busy, long, *_),) = ((W1, *sorted(task for task in before[W1] if not task.is_planner)),)
        running = frozenset(min(task for task in tasks if not task.is_planner) for tasks in before.values())
        costs = {task: 1.0 for task in group.configured if not task.is_planner} | {long: 50.0}
        group.costs = Costs(of=costs, left={task: costs[task] for task in running})
        group.rank = dict.fromkeys(running, 2)
        group.assign()
        assert {task for task in group.shares[busy] if not task.is_planner} == {long}
        assert not moved(before, group.shares) & running


def skewed(assignor: ClientSideAssignor) -> DeclarativeGroup:
    group = DeclarativeGroup(TEN, assignor=assignor)
    group.costs = Costs(of={task: 1.0 + 9 * (task.index == 3) for task in TEN if not task.is_planner})
    group.join("w1", "w2", "w3")
    group.assign()
    return group


class TestLessToDo:
    """A batch task that is stopped loses what it has done."""

    def test_what_runs_goes_on_when_others_have_ended(self) -> None:
        group = three()
        kept = group.shares
        ended = frozenset(task for task in kept[W1] if not task.is_planner)
        group.configured -= ended
        group.rank = dict.fromkeys(group.configured, 1)
        group.assign()
        assert group.shares == {**kept, W1: kept[W1] - ended}

    def test_what_waits_fills_the_free_slots(self) -> None:
        group = three()
        kept = group.shares
        group.configured -= frozenset(task for task in kept[W1] if not task.is_planner)
        waits = max(task for task in kept[W2] if not task.is_planner)
        group.rank = dict.fromkeys(group.configured - {waits}, 1)
        group.assign()
        assert group.shares[W1] - kept[W1] == {waits}

    @pytest.mark.parametrize("also", ["one more worker", "more work"])
    def test_whatever_else_happens_evens_out(self, also: str) -> None:
        group = three()
        group.configured -= frozenset(task for task in group.shares[W1] if not task.is_planner)
        if also == "more work":
            group.configured |= jobs({"b": 1})
        else:
            group.join("w4")
        group.rank = dict.fromkeys(group.configured, 1)
        group.assign()
        numbers = [sum(not task.is_planner for task in tasks) for tasks in group.shares.values()]
        assert max(numbers) - min(numbers) <= 1


class TestDelay:
    def test_what_was_lost_waits_for_its_member_and_goes_to_others_when_that_is_called_over(self) -> None:
        group = three()
        kept = group.shares
        group.leave("w2")
        group.assign("w3")
        assert group.delayed == {W2: kept[W2]}
        assert group.shares == {W1: kept[W1], W3: kept[W3]}
        assert group.asks == {W3: DELAY_MS}
        group.call_over()
        group.assign("w1")
        assert not group.delayed
        assert not group.asks
        assert moved(kept, group.shares) == kept[W2]

    def test_who_is_back_has_its_own(self) -> None:
        group = three()
        kept = group.shares
        group.leave("w2")
        group.assign()
        group.now_ms += 1_000
        group.join("w2")
        group.assign("w2")
        assert group.shares == kept
        assert not group.asks

    def test_a_static_member_is_back_under_its_instance_id(self) -> None:
        group = DeclarativeGroup(TEN)
        group.join("w1")
        group.join("once", instance="second")
        group.assign()
        kept = group.shares
        group.leave("once")
        group.assign()
        group.join("again", instance="second")
        group.assign()
        assert group.shares == {W1: kept[W1], MemberId("again"): kept[MemberId("once")]}

    def test_another_assignment_meanwhile_neither_ends_nor_prolongs_it(self) -> None:
        group = three()
        kept = group.shares
        group.leave("w2")
        group.assign("w3")
        group.now_ms += 100_000
        group.join("w4")
        group.assign("w1")
        assert group.delayed == {W2: kept[W2]}
        assert group.shares[MemberId("w4")] == NO_TASKS, "nothing that runs is stopped while lost work waits"
        assert group.asks == {W1: DELAY_MS - 100_000}

    def test_who_called_it_over_is_believed_whatever_the_clock_here_says(self) -> None:
        group = three()
        group.leave("w2")
        group.assign("w3")
        group.call_over()
        group.now_ms -= 10_000
        group.assign("w1")
        assert not group.delayed

    def test_it_goes_on_when_who_was_to_call_it_over_has_left_too(self) -> None:
        group = three()
        group.leave("w2")
        group.assign("w3")
        group.now_ms += 100_000
        group.leave("w3")
        group.assign("w1")
        assert group.delayed.keys() == {W2, W3}
        assert group.asks == {W1: DELAY_MS - 100_000}

    @pytest.mark.parametrize(
        "last_words", [WorkerFacts(leaving=LeaveReason.STOPPED), WorkerFacts(returns_ms=0)], ids=["leaves", "lost"]
    )
    def test_nobody_waits_for_who_never_comes_back(self, last_words: WorkerFacts) -> None:
        group = three()
        kept = group.shares
        group.leave("w2", facts=last_words)
        group.assign()
        assert not group.delayed
        assert moved(kept, group.shares) == kept[W2]

    def test_who_has_said_when_it_is_back_is_waited_for_until_then(self) -> None:
        group = three()
        group.leave("w2", facts=WorkerFacts(leaving=LeaveReason.RESTARTING, returns_ms=60_000))
        group.assign()
        assert group.asks == {W1: 60_000}
        group.now_ms += 10_000
        group.assign()
        assert group.asks == {W1: 50_000}
        group.call_over()
        group.assign()
        assert not group.delayed

    def test_each_waits_for_as_long_as_it_has_said_and_the_others_for_the_delay(self) -> None:
        group = three()
        group.leave("w2", facts=WorkerFacts(leaving=LeaveReason.RESTARTING, returns_ms=60_000))
        group.leave("w3")
        group.assign()
        group.assign()
        assert group.asks == {W1: 60_000}
        group.call_over()
        group.assign()
        assert group.delayed.keys() == {W3}
        assert group.asks == {W1: DELAY_MS - 60_000}

    @pytest.mark.parametrize("before_ms", [None, 60_000])
    def test_who_was_back_since_the_last_target_is_waited_for_no_longer_than_it_has_said_then(
        self, before_ms: int | None
    ) -> None:
        group = three()
        kept = group.shares
        group.leave("w2", facts=WorkerFacts(returns_ms=before_ms))
        group.assign()
        group.now_ms += 5_000
        group.join("w2")
        group.leave("w2", facts=WorkerFacts(returns_ms=10_000))
        group.assign()
        assert group.delayed == {W2: kept[W2]}
        assert group.asks == {W1: 10_000}
        group.call_over()
        group.assign()
        assert not group.delayed

    def test_the_groups_delay_takes_the_place_of_the_policys(self) -> None:
        group = three()
        group.leave("w2")
        seen = group.seen()
        without = Group(
            computing=seen.computing,
            members=seen.members,
            departed=seen.departed,
            configured=seen.configured,
            now_ms=seen.now_ms,
            max_delay_ms=0,
        )
        assert not group.assignor.assign(without).delayed

    def test_the_end_of_each_delay_changes_the_metadata(self) -> None:
        assignor = CooperativeAssignor()
        said = [assignor.metadata(WorkerFacts(delay_over_ms=at_ms)) for at_ms in (0, 1_000, 2_000)]
        assert [one.reason for one in said] == [Reason.NONE, Reason.DELAY_OVER, Reason.DELAY_OVER]
        assert len({one.metadata for one in said}) == 3


class TestSteps:
    def test_a_policy_of_steps_moves_so_many_and_asks_for_the_next_one(self) -> None:
        group = DeclarativeGroup(jobs({"a": 40}), policy=Incremental(max_moves=3, move_interval_ms=30_000))
        group.join("w1")
        group.assign()
        group.join("w2")
        waits: list[int] = []
        for _ in range(10):
            before = group.shares
            group.assign()
            assert len(moved(before, group.shares)) <= 3
            if not group.asks:
                break
            waits += group.asks.values()
            group.call_over()
        assert waits == [30_000] * 6
        assert len(group.shares[W2]) == 20

    def test_an_assignment_in_between_takes_nothing(self) -> None:
        group = DeclarativeGroup(jobs({"a": 40}), policy=Incremental(max_moves=3, move_interval_ms=30_000))
        group.join("w1")
        group.assign()
        group.join("w2")
        group.assign("w1")
        before = group.shares
        group.leave("w1")
        group.join("w1")
        group.now_ms += 10_000
        group.assign("w2")
        assert group.shares == before
        assert group.asks == {W2: 20_000}


class TestWhoLeaves:
    def test_who_says_that_it_will_leave_gives_up_what_does_not_run(self) -> None:
        group = three()
        runs = max(group.shares[W2])
        group.rank[runs] = 5
        group.facts[W2] = WorkerFacts(leaving=LeaveReason.DRAINED)
        group.assign()
        assert group.shares[W2] == {runs}


class TestReplanned:
    def test_a_job_that_is_planned_anew_finds_its_tasks_where_they_were(self) -> None:
        group = DeclarativeGroup(TEN)
        group.join("w3", "w1")
        group.assign()
        group.join("w2")
        group.assign()
        kept = group.shares
        group.configured = jobs({"a": 0})
        group.assign("w2")
        group.assign("w1")
        group.configured = TEN
        group.assign("w3")
        assert group.shares == kept


class TestEager:
    def test_everything_is_dealt_out_by_name(self) -> None:
        group = DeclarativeGroup(jobs({"a": 3}), assignor=EagerAssignor())
        group.join("w2", "w1")
        group.assign()
        a = [TaskId("a", index) for index in range(-1, 3)]
        assert group.shares == {W1: {a[0], a[2]}, W2: {a[1], a[3]}}
        assert not group.asks

    def test_an_eager_worker_offers_nothing_else(self) -> None:
        assert [one.name for one in assignors_offered(ConnectProtocol.EAGER)] == ["eager"]
        both = assignors_offered(policy=IMMEDIATE)
        assert [(one.name, one.minimum_version, one.maximum_version) for one in both] == [
            ("cooperative", COMPATIBLE, SESSIONED),
            ("eager", EAGER, EAGER),
        ]


FACTS = st.builds(
    WorkerFacts,
    url=st.text(max_size=20),
    slots=st.integers(0, 100),
    returns_ms=st.none() | st.integers(0, 10**6),
    leaving=st.none() | st.sampled_from(LeaveReason),
    delay_over_ms=st.integers(0, 2**60),
)
REMEMBERED = st.builds(
    Remembered,
    asks_at_ms=st.integers(0, 2**60),
    next_moves_at_ms=st.integers(0, 2**60),
    until_ms=st.integers(0, 2**60),
    awaited=st.booleans(),
    instance_id=st.text(max_size=10),
    former=st.sets(st.builds(TaskId, st.sampled_from("ab"), st.integers(-1, 9))).map(frozenset),
)


class TestBytes:
    @pytest.mark.slow
    @patient
    @given(facts=FACTS, version=st.sampled_from((COMPATIBLE, SESSIONED)))
    def test_facts(self, facts: WorkerFacts, version: int) -> None:
        assert decode_facts(encode_facts(facts, version), version) == facts
        assert decode_facts(encode_facts(facts, EAGER), EAGER) == WorkerFacts(url=facts.url)

    def test_by_hand(self) -> None:
        facts = WorkerFacts(url="u", slots=3, returns_ms=60_000, leaving=LeaveReason.RESTARTING, delay_over_ms=7)
        assert (
            encode_facts(facts, SESSIONED).hex() == "027500000003" + "0000ea60" + "04" + "010008" + "0000000000000007"
        )
        assert encode_facts(NOTHING_SAID, EAGER).hex() == "0100"

    @pytest.mark.slow
    @patient
    @given(remembered=REMEMBERED)
    def test_what_is_remembered(self, remembered: Remembered) -> None:
        assert decode_remembered(encode_remembered(remembered, SESSIONED)) == remembered
        assert encode_remembered(NOTHING_REMEMBERED, SESSIONED).data == b""

    @patient
    @given(data=st.binary(max_size=40), version=st.integers(-1, 4))
    def test_who_cannot_be_understood_has_said_nothing(self, data: bytes, version: int) -> None:
        decode_facts(data, version)
        decode_remembered(AssignorMetadata(version=version, data=data))
        assert decode_facts(b"\xff" + data, version) == NOTHING_SAID
        assert decode_remembered(AssignorMetadata(version=version, data=b"\xff" + data)) == NOTHING_REMEMBERED


def is_balanced(group: DeclarativeGroup) -> bool:
    for kind in ({t for t in group.configured if t.is_planner}, {t for t in group.configured if not t.is_planner}):
        loads = [len(share & kind) for share in group.shares.values()]
        if max(loads) - min(loads) > 1:
            return False
    return True


def needed(kept: dict[MemberId, Tasks], configured: Tasks) -> int:
    """How many tasks have to leave a member that is still there, for balance."""
    shares = {WorkerId(one): share & configured for one, share in kept.items()}
    now = Round(now_ms=0, generation=GenerationId(1), last_completed=NO_GENERATION, configured=configured, owned=shares)
    return above_shares(now, shares)


@pytest.mark.slow
@patient
@given(
    sizes=SIZES,
    later=SIZES,
    members=st.sets(st.sampled_from("stuvwxyz"), min_size=1),
    after=st.sets(st.sampled_from("stuvwxyz"), min_size=1),
    policy=st.sampled_from((IMMEDIATE, Deferred())),
)
def test_balanced_and_no_more_moves_than_that_takes(
    sizes: dict[str, int], later: dict[str, int], members: set[str], after: set[str], policy: Deferred
) -> None:
    """Anything happens together: members come and go, jobs come, go and change their size."""
    group = DeclarativeGroup(jobs(sizes), policy=policy)
    group.join(*sorted(members))
    group.assign()
    assert is_balanced(group)
    before = group.shares
    group.configured = jobs(later)
    group.leave(*sorted(members - after))
    group.join(*sorted(after - members))
    group.assign()
    stayed = {one: before.get(one, NO_TASKS) for one in group.facts}
    stopped = moved(stayed, group.shares) & group.configured
    if group.delayed:
        assert not stopped
        assert group.delayed.keys() <= set(ids(members - after))
        assert list(group.asks.values()) == [DELAY_MS]
        group.call_over()
        before = group.shares
        group.assign()
        stopped = moved(before, group.shares)
        assert len(stopped) == needed(before, group.configured)
    else:
        assert len(stopped) == needed(stayed, group.configured)
    assert is_balanced(group)
    assert not group.asks
    before = group.shares
    group.assign()
    assert group.shares == before
