"""What a bridge says to its coordinator, and what it does about what that says."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from member_script import tasks

from airflow_provider.assignment.model import Memory
from airflow_provider.group.declarative.bridge.talk import BridgeTalk, still_claimed
from airflow_provider.group.declarative.coordinator.events import (
    BridgeAsks,
    BridgeClaims,
    BridgeLost,
    BridgeSaid,
    ToBridge,
)
from airflow_provider.group.held_tasks import StopReason
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.values.group_protocol.bridge import BRIDGE
from airflow_provider.values.model import (
    NO_TASKS,
    ConfigOffset,
    Epoch,
    GenerationId,
    MemberId,
    SubProtocol,
    Tasks,
    WorkerId,
)

LEASE_MS = 70_000


@dataclass
class Membership:
    """Notes what the bridge has it do."""

    leaving: bool = False
    lease_until_ms: int | None = LEASE_MS
    did: list[tuple[str, object]] = field(default_factory=list)

    def tasks_stopped(self, some: Tasks) -> None:
        self.did.append(("stopped", some))

    def tasks_finished(self, some: Tasks) -> None:
        self.did.append(("finished", some))

    def say(self, url: str) -> None:
        self.did.append(("say", url))

    def leave(self, reason: str) -> None:
        self.leaving = True
        self.did.append(("leave", reason))


class Talk:
    def __init__(self, claims: Tasks = NO_TASKS, last: ClassicRecord | None = None) -> None:
        self.membership = Membership()
        self.words: list[BridgeSaid | BridgeLost] = []
        self.bridge = BridgeTalk("g", claimed(claims), self.membership, self.words.append, lambda: 5, last)

    def hear(
        self, free: str = "", *, asked: BridgeAsks | None = None, members: int = 1, wants_epoch: bool = False
    ) -> None:
        answer = ToBridge(members=members, wants_epoch=wants_epoch, free=tasks(free))
        self.bridge.hear(self.bridge.asks if asked is None else asked, answer)

    @property
    def said(self) -> BridgeSaid:
        last = self.words[-1]
        assert isinstance(last, BridgeSaid)
        return last


def claimed(some: Tasks) -> BridgeClaims:
    """By members that had these tasks in epoch 3."""
    return BridgeClaims(tasks=some, epoch=Epoch(3))


@pytest.fixture
def talk() -> Talk:
    """A bridge that was given a0 and a1 in epoch 4."""
    one = Talk()
    one.bridge.start_tasks(tasks("a0 a1"), Epoch(4))
    assert one.words == []
    one.bridge.assigned(Epoch(4))
    return one


def test_it_says_nothing_before_it_has_its_assignment_and_then_all(talk: Talk) -> None:
    assert talk.words == [
        BridgeSaid(now_ms=5, group_id="g", epoch=Epoch(4), tasks=tasks("a0 a1"), lease_until_ms=LEASE_MS)
    ]
    talk.bridge.look(tasks("a0 a1"))
    assert len(talk.words) == 1
    talk.membership.lease_until_ms = LEASE_MS + 1
    talk.bridge.look(tasks("a0 a1"))
    assert talk.said.lease_until_ms == LEASE_MS + 1


def test_it_lets_go_of_what_it_has_to_give_up_when_nobody_runs_it(talk: Talk) -> None:
    talk.bridge.stop_tasks(tasks("a0"), StopReason.REVOKED)
    assert talk.said.tasks == tasks("a1")
    assert talk.bridge.asks.tasks == tasks("a0")
    talk.hear()
    assert talk.membership.did == []
    talk.hear("a0")
    assert talk.membership.did == [("stopped", tasks("a0"))]
    assert talk.bridge.asks.tasks == NO_TASKS


def test_an_answer_to_an_earlier_question_frees_nothing_that_was_given_since(talk: Talk) -> None:
    talk.bridge.stop_tasks(tasks("a0"), StopReason.REVOKED)
    asked = talk.bridge.asks
    talk.hear("a0")
    talk.bridge.start_tasks(tasks("a0"), Epoch(6))
    talk.bridge.stop_tasks(tasks("a0"), StopReason.REVOKED)
    talk.hear("a0", asked=asked)
    assert talk.membership.did == [("stopped", tasks("a0"))]


def test_what_has_come_to_its_end_is_let_go_of_without_a_round(talk: Talk) -> None:
    talk.bridge.look(tasks("a1"))
    assert talk.said.tasks == tasks("a1")
    talk.hear("a0")
    assert talk.membership.did == [("finished", tasks("a0"))]


def test_an_epoch_that_is_wanted_takes_a_round(talk: Talk) -> None:
    talk.hear(members=3, wants_epoch=True)
    talk.hear(members=3, wants_epoch=True)
    talk.bridge.assigned(Epoch(5))
    talk.hear(members=3, wants_epoch=True)
    assert talk.membership.did == [("say", "bridge:3:4"), ("say", "bridge:3:4"), ("say", "bridge:3:5")]


def test_when_the_last_declarative_worker_has_gone_it_leaves(talk: Talk) -> None:
    talk.hear(members=0)
    talk.bridge.stop_tasks(tasks("a0 a1"), StopReason.LEAVING)
    assert talk.said.tasks == NO_TASKS
    talk.hear("a0 a1", members=0)
    assert talk.membership.did == [("leave", "the last declarative worker has left"), ("stopped", tasks("a0 a1"))]


def test_one_that_leaves_before_it_is_in_lets_go_of_all_that_it_has_claimed() -> None:
    talk = Talk(tasks("a0"))
    talk.hear(members=0)
    talk.bridge.stop_tasks(tasks("a0"), StopReason.LEAVING)
    assert talk.words == [BridgeLost(now_ms=5, group_id="g")]
    talk.hear("a0", members=0)
    assert talk.membership.did[-1] == ("stopped", tasks("a0"))


@pytest.mark.parametrize("reason", [StopReason.LEASE_OVER, StopReason.EXPELLED, StopReason.FENCED, StopReason.FAILED])
def test_a_lease_that_is_over_is_the_end_of_all_that_was_said(talk: Talk, reason: StopReason) -> None:
    talk.bridge.stop_tasks(tasks("a0 a1"), reason)
    assert isinstance(talk.words[-1], BridgeLost)
    talk.bridge.look(NO_TASKS)
    assert isinstance(talk.words[-1], BridgeLost)
    talk.bridge.assigned(Epoch(9))
    assert (talk.said.epoch, talk.said.tasks) == (9, NO_TASKS)


def test_what_is_run_when_it_begins_is_given_to_it(talk: Talk) -> None:
    later = Talk(tasks("a0 a1"))
    later.bridge.stop_tasks(tasks("a1"), StopReason.REVOKED)
    assert later.words == []
    later.bridge.assigned(Epoch(8))
    assert later.said.tasks == tasks("a0")


def test_what_a_group_has_gone_on_without_its_bridge_with_is_not_claimed() -> None:
    words: list[BridgeSaid | BridgeLost] = []

    def still(last: ClassicRecord | None) -> Tasks:
        return still_claimed(claimed(tasks("a0")), last, "g", words.append, 5).tasks

    assert still(None) == tasks("a0")
    assert still(a_round(BRIDGE, WorkerId("w"))) == tasks("a0")
    assert still(a_round(BRIDGE, WorkerId("w"), epoch=9, since=3)) == tasks("a0")
    assert words == []
    assert still(a_round(WorkerId("w"))) == NO_TASKS
    assert words == [BridgeLost(now_ms=5, group_id="g")]


def test_a_bridge_whose_coordinator_died_before_it_knew_does_not_hide_the_rounds_without_one() -> None:
    """It is not certain that there were any: members may still run what is claimed."""
    words: list[BridgeSaid | BridgeLost] = []
    again = a_round(BRIDGE, WorkerId("w"), epoch=9, since=8)
    assert still_claimed(claimed(tasks("a0")), again, "g", words.append, 5).tasks == tasks("a0")
    assert words == [BridgeLost(now_ms=5, group_id="g")]


def test_a_bridge_that_finds_itself_new_in_the_group_tells_so() -> None:
    """Rounds without it were over before its join had come, and their records are not all read."""
    talk = Talk(tasks("a0"), last=a_round(BRIDGE, WorkerId("w")))
    talk.bridge.read(a_round(BRIDGE, WorkerId("w"), epoch=4, since=4))
    assert talk.words == [BridgeLost(now_ms=5, group_id="g")]


@pytest.mark.parametrize(
    ("rounds", "joins_in", "is_lost"),
    [
        ([(4, BRIDGE)], 4, False),
        ([], 4, False),
        ([(4, BRIDGE)], 5, False),
        ([(4, "w"), (5, BRIDGE)], 5, True),
        ([(5, BRIDGE)], 5, True),
        ([], 5, True),
    ],
)
def test_rounds_without_it_while_it_is_on_its_way_have_given_away_what_it_claims(
    rounds: list[tuple[int, str]], joins_in: int, *, is_lost: bool
) -> None:
    """A round of which it has read no record may have, too."""
    talk = Talk(tasks("a0"), last=a_round(BRIDGE, WorkerId("w")))
    for epoch, worker in rounds:
        talk.bridge.read(a_round(WorkerId(worker), epoch=epoch))
    talk.bridge.assigned(Epoch(joins_in))
    lost = [BridgeLost(now_ms=5, group_id="g")] if is_lost else []
    assert talk.words == [*lost, talk.said]
    talk.bridge.read(a_round(WorkerId("w"), epoch=joins_in + 1))
    assert talk.words == [*lost, talk.said], "once it is in, its own lease tells"


def a_round(*workers: WorkerId, epoch: int = 3, since: int | None = None) -> ClassicRecord:
    return ClassicRecord(
        epoch=Epoch(epoch),
        generation=GenerationId(epoch),
        leader=workers[0],
        leader_member=MemberId("m"),
        protocol=SubProtocol.SESSIONED,
        config_offset=ConfigOffset(0),
        members=dict.fromkeys(workers, MemberId("m")),
        assignment={},
        revoked={},
        moves=(),
        delay_ms=0,
        reason="",
        at_ms=0,
        memory=Memory(),
        bridged_since=None if since is None else Epoch(since),
    )


def test_it_joins_again_when_it_stands_for_another_number_of_workers(talk: Talk) -> None:
    talk.hear(members=3)
    talk.hear(members=3)
    talk.hear(members=2)
    assert talk.membership.did == [("say", "bridge:3:4"), ("say", "bridge:2:4")]
