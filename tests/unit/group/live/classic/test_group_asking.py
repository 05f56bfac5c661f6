"""What a member's log says of answers that nobody else could explain."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider.group.classic.member.events import Request, RequestRejected, SendSync
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.group.live.classic.sending import Asking
from airflow_provider.kafka.group_requests.messages import SyncResponse
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import GenerationId, MemberId, SubProtocol, WorkerId


class Refusing:
    """A coordinator that takes no assignment."""

    principal = "User:etl"

    def __init__(self, error: KafkaErrorCode) -> None:
        self._error = error

    async def sync(self, *_: object) -> SyncResponse:
        return SyncResponse(error=self._error)


@pytest.mark.parametrize(
    ("error", "size", "warns"),
    [
        (KafkaErrorCode.UNKNOWN_SERVER_ERROR, 600_000, True),
        (KafkaErrorCode.UNKNOWN_SERVER_ERROR, 6_000, False),
        (KafkaErrorCode.REBALANCE_IN_PROGRESS, 600_000, False),
    ],
)
async def test_a_leader_says_that_a_round_may_be_too_large_for_the_coordinator(
    error: KafkaErrorCode, size: int, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    transport: Any = Refusing(error)
    asking = Asking(MemberSettings(group_id="g", worker=WorkerId("w")), transport, lambda: True)
    member_id = MemberId("m")
    sync = SendSync(
        seq=3,
        node=1,
        member_id=member_id,
        generation=GenerationId(2),
        protocol=SubProtocol.EXTENSIBLE,
        assignments={member_id: bytes(size)},
    )
    answer = await asking.ask(sync)
    assert isinstance(answer, RequestRejected)
    assert (answer.request, answer.error) == (Request.SYNC, error)
    assert ("600000 bytes" in caplog.text and "offsets.topic.compression.codec" in caplog.text) == warns
