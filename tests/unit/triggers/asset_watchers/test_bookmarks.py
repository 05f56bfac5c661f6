"""How far a watcher has been told is read and noted, also when its consumer group's coordinator is away or moves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from airflow_provider.kafka.errors import Fault, TransportError
from airflow_provider.kafka.group_requests.messages import CommittedOffset, FindCoordinatorResponse, NodeId
from airflow_provider.kafka.topics.errors import PassingError, RightsError, TopicError
from airflow_provider.triggers.asset_watchers.bookmarks import Bookmark
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode

pytestmark = pytest.mark.turned_clock

HERE = FindCoordinatorResponse(error=KafkaErrorCode.NONE, node=NodeId(1), host="b", port=9092)
AWAY = TransportError("cannot connect to b:9092", fault=Fault.CONNECTION)


class Coordinator:
    """What the brokers answer, one after the other, and the last answer again and again."""

    principal = "User:alice"

    def __init__(self, *answers: FindCoordinatorResponse | CommittedOffset | TransportError) -> None:
        self._answers: Sequence[Any] = answers
        self.asked: list[tuple[Any, ...]] = []

    async def find_coordinator(self, group_id: str) -> FindCoordinatorResponse:
        if isinstance(self._answers[0], CommittedOffset):
            return HERE
        found: FindCoordinatorResponse = self._answer("find", group_id)
        return found

    async def committed(self, coordinator: NodeId, group_id: str, topic: str) -> CommittedOffset:
        found: CommittedOffset = self._answer("committed", group_id, topic)
        return found

    async def commit(self, coordinator: NodeId, group_id: str, topic: str, offset: int) -> CommittedOffset:
        done: CommittedOffset = self._answer("commit", group_id, topic, offset)
        return done

    def _answer(self, *asked: Any) -> Any:
        self.asked.append(asked)
        answer, *rest = self._answers
        self._answers = rest or [answer]
        if isinstance(answer, TransportError):
            raise answer
        return answer


def bookmark(coordinator: Coordinator) -> Bookmark:
    asked: Any = coordinator
    return Bookmark(asked, "g.watcher.w", "g.events")


def refused(error: KafkaErrorCode) -> CommittedOffset:
    return CommittedOffset(error=error)


@pytest.mark.parametrize(
    "passing",
    [
        AWAY,
        TransportError("OffsetFetch to b:9092 has no answer: timed out", fault=Fault.TIMEOUT),
        FindCoordinatorResponse(error=KafkaErrorCode.COORDINATOR_NOT_AVAILABLE, node=NodeId(-1), host="", port=-1),
        refused(KafkaErrorCode.NOT_COORDINATOR),
        refused(KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        refused(KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
    ids=str,
)
async def test_what_passes_is_waited_out(passing: Any) -> None:
    there = CommittedOffset(error=KafkaErrorCode.NONE, offset=7)
    assert await bookmark(Coordinator(passing, passing, there)).read() == 7
    coordinator = Coordinator(passing, there)
    await bookmark(coordinator).put(9)
    assert coordinator.asked[-1] == ("commit", "g.watcher.w", "g.events", 9)


async def test_there_may_be_none_yet() -> None:
    assert await bookmark(Coordinator(CommittedOffset(error=KafkaErrorCode.NONE))).read() is None


@pytest.mark.parametrize("lasts", [AWAY, refused(KafkaErrorCode.NOT_COORDINATOR)], ids=str)
async def test_what_does_not_pass_in_time_is_said_and_may_be_tried_again(lasts: Any) -> None:
    coordinator = Coordinator(lasts)
    with pytest.raises(PassingError, match=r"the bookmark 'g.watcher.w' \(a consumer group\) can't be read: "):
        await bookmark(coordinator).read()
    assert len(coordinator.asked) > 10
    with pytest.raises(PassingError, match="can't be written"):
        await bookmark(coordinator).put(1)


@pytest.mark.parametrize(
    ("lasts", "kind", "said"),
    [
        (
            refused(KafkaErrorCode.GROUP_AUTHORIZATION_FAILED),
            RightsError,
            "User:alice.* READ on the group 'g.watcher.w'",
        ),
        (refused(KafkaErrorCode.UNKNOWN_MEMBER_ID), TopicError, "can't be read: UNKNOWN_MEMBER_ID"),
        (TransportError("refused; check sasl.password", fault=Fault.SECURITY), TopicError, "check sasl.password"),
    ],
    ids=str,
)
async def test_what_lasts_is_said_at_once(lasts: Any, kind: type[TopicError], said: str) -> None:
    coordinator = Coordinator(lasts)
    with pytest.raises(kind, match=said) as wrong:
        await bookmark(coordinator).read()
    assert not isinstance(wrong.value, PassingError)
    assert len(coordinator.asked) == 1
