"""The thread of one shard, with a machine that echoes and a log in memory."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator

import pytest
from echo_machine import HEARTBEAT_MS, HELD, RAISES, SESSION_MS, SHORT, SHORT_MS, EchoMachine, heartbeat_of
from shard_log import MemoryLog, raw
from waiting import DEADLINE_S, wait_until

from airflow_provider.group.declarative.coordinator.events import RequestArrived, RequestId
from airflow_provider.group.declarative.coordinator.requesters import requester_of
from airflow_provider.group.declarative.protocol.exchange import RawRequest
from airflow_provider.group.declarative.protocol.sharding import Layout
from airflow_provider.group.declarative.server import shard as shard_module
from airflow_provider.group.declarative.server.errors import FencedError, OversizedError, ShardError
from airflow_provider.group.declarative.server.request_handling.faulty import Faulty
from airflow_provider.group.declarative.server.request_handling.inbox import Inbox
from airflow_provider.group.declarative.server.shard import Shard
from airflow_provider.kafka import error_backoff
from airflow_provider.kafka.trouble import Trouble
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import TaskId

ONE = Layout(shards=1, replies=2)


class Lived:
    """A shard with its thread."""

    def __init__(self, log: MemoryLog) -> None:
        self.log = log
        self.clock_ms = 1_000
        self.loaded, self.fenced = threading.Event(), threading.Event()
        self.groups: list[frozenset[str]] = []
        self.starved: list[ShardError] = []
        self.shard = Shard(
            0,
            ONE,
            machine=EchoMachine,
            open_log=lambda: log,
            now_ms=lambda: self.clock_ms,
            when_loaded=self.loaded.set,
            when_fenced=self.fenced.set,
            when_starved=self.starved.append,
            when_groups_change=self.groups.append,
        )

    def put(self, *requests: RawRequest) -> None:
        self.log.ends_at = requests[-1].offset + 1
        self.shard.inbox.put(requests)


@pytest.fixture
def lived(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[MemoryLog], Lived]]:
    """Lets a shard live, which rests but for a moment."""
    monkeypatch.setattr(shard_module, "_FIRST_REST_S", 0.001)
    monkeypatch.setattr(error_backoff, "_LONGEST_S", 0.001)
    alive: list[Lived] = []

    def begin(log: MemoryLog) -> Lived:
        alive.append(Lived(log))
        alive[-1].shard.start()
        return alive[-1]

    yield begin
    for each in alive:
        each.shard.end()
        assert each.shard.join(DEADLINE_S)


Live = Callable[[MemoryLog], Lived]


def test_a_shard_handles_what_comes(lived: Live) -> None:
    log = MemoryLog()
    shard = lived(log)
    assert shard.loaded.wait(DEADLINE_S)
    shard.put(raw(0), raw(1))
    shard.put(raw(2))
    wait_until(lambda: log.answers == {0: (0, 1), 1: (0, 2), 2: (0, 3)})
    assert shard.groups == [frozenset({"etl"})]
    assert log.committed[-1][1] == 3


def test_after_a_fault_all_is_handled_that_was_not(lived: Live) -> None:
    log = MemoryLog()
    shard = lived(log)
    assert shard.loaded.wait(DEADLINE_S)
    shard.put(raw(0), raw(1, RAISES), raw(2))
    wait_until(lambda: len(log.answers) == 3)
    assert log.answers == {0: (0, 1), 1: (KafkaErrorCode.UNKNOWN_SERVER_ERROR, 0), 2: (0, 2)}
    log.errors = [ShardError("nobody knows"), ShardError("again")]
    shard.put(raw(3))
    wait_until(lambda: 3 in log.answers)
    assert log.answers[3] == (0, 3)


def test_what_a_transaction_has_handled_of_which_nobody_knew_is_not_handled_again(lived: Live) -> None:
    log = MemoryLog()
    shard = lived(log)
    assert shard.loaded.wait(DEADLINE_S)
    log.errors = [ShardError("nobody knows")]
    log.unknown = list(log.errors)
    shard.put(raw(0))
    wait_until(lambda: log.opened == 2)
    shard.put(raw(1, "other"))
    wait_until(lambda: 1 in log.answers)
    assert [reply.header.correlation_id for reply in log.replies] == [0, 1]


def test_requests_that_another_coordinator_has_handled_since_the_consumer_was_told_its_place_are_passed_over(
    lived: Live,
) -> None:
    log = MemoryLog()
    log.committed.append(([], 2))
    shard = lived(log)
    assert shard.loaded.wait(DEADLINE_S)
    shard.put(raw(0), raw(1))
    shard.put(raw(2))
    wait_until(lambda: 2 in log.answers)
    assert log.answers == {2: (0, 1)}


def test_who_is_fenced_writes_nothing_more(lived: Live) -> None:
    log = MemoryLog()
    shard = lived(log)
    assert shard.loaded.wait(DEADLINE_S)
    log.errors = [FencedError("somebody else")]
    shard.put(raw(0))
    assert shard.fenced.wait(DEADLINE_S)
    assert shard.shard.join(DEADLINE_S)
    shard.put(raw(1))
    assert log.committed == []


@pytest.mark.slow
def test_nobody_is_taken_for_silent_whose_heartbeat_lies_in_the_topic(
    lived: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = MemoryLog()
    shard = lived(log)
    assert shard.loaded.wait(DEADLINE_S)
    shard.put(raw(0, HELD))
    wait_until(lambda: log.committed)
    log.ends_at = 2  # another request, which has not come yet
    shard.clock_ms += HEARTBEAT_MS + 1
    wait_until(lambda: log.asked_for_end >= 1)
    assert log.answers == {}
    shard.put(raw(1, "m"))
    wait_until(lambda: 0 in log.answers)
    assert list(log.answers) == [1, 0]


@pytest.mark.slow
def test_who_stood_still_begins_anew(lived: Live) -> None:
    log = MemoryLog()
    shard = lived(log)
    assert shard.loaded.wait(DEADLINE_S)
    shard.put(raw(0, HELD))
    wait_until(lambda: log.committed)
    shard.clock_ms += 60_000
    wait_until(lambda: log.opened == 2)
    wait_until(lambda: log.answers == {0: (KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 0)})


@pytest.mark.parametrize("reads", [True, False])
def test_requests_that_nobody_reads_are_noticed(lived: Live, reads: bool) -> None:
    """Their consumer does not work, which it may never say."""
    log = MemoryLog()
    shard = lived(log)
    assert shard.loaded.wait(DEADLINE_S)
    shard.put(raw(0, HELD))
    wait_until(lambda: log.committed)
    log.ends_at = 50
    for asked in range(1, 6):
        shard.clock_ms += 3_000
        wait_until(lambda: log.asked_for_end >= asked)  # noqa: B023  called in here
        if reads:
            shard.shard.inbox.reached(1 + asked)
            wait_until(lambda: shard.shard._read_to == 1 + asked)  # noqa: B023
    if not reads:
        wait_until(lambda: shard.starved)
    assert [str(each) for each in shard.starved] == [
        "the requests of shard 0 are not read any more, although there are more"
    ] * (not reads)


def test_a_shard_without_members_notices_what_nobody_reads_and_bears_an_outage(lived: Live) -> None:
    """It has no timer, and nobody can join."""
    log = MemoryLog()
    shard = lived(log)
    assert shard.loaded.wait(DEADLINE_S)
    log.ends_at = 50

    def looks(times: int) -> None:
        asked = log.asked_for_end
        while log.asked_for_end < asked + times:
            shard.clock_ms += 3_000  # less than a stall
            shard.shard.inbox.reached(0)  # wakes it
            wait_until(lambda: shard.shard._turn_at_ms == shard.clock_ms)

    log.end_fails = True
    looks(3)
    assert (log.opened, shard.starved) == (1, [])
    log.end_fails = False
    looks(3)
    wait_until(lambda: shard.starved)
    assert log.opened == 1


def test_a_shard_that_is_taken_away_tells_those_who_wait(lived: Live) -> None:
    log = MemoryLog()
    shard = lived(log)
    assert shard.loaded.wait(DEADLINE_S)
    shard.put(raw(0, HELD))
    wait_until(lambda: log.committed)
    shard.shard.end()
    assert shard.shard.join(DEADLINE_S)
    assert log.answers == {0: (KafkaErrorCode.NOT_COORDINATOR, 0)}


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The first words of each line, without numbers that vary."""
    return [record.message.split(": loaded")[0] for record in caplog.records if record.levelno >= logging.INFO]


def test_that_a_shard_is_not_served_is_said_once_and_once_that_it_is(
    lived: Live, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    log = MemoryLog()
    shard = lived(log)
    assert shard.loaded.wait(DEADLINE_S)
    log.errors = [ShardError("nobody knows")]
    log.fails_to_load = [ShardError("nobody knows"), ShardError("nobody knows"), ShardError("nobody may know")]
    shard.put(raw(0))
    wait_until(lambda: 0 in log.answers)
    again = "shard 0 will be served again when it is loaded"
    assert said(caplog) == [
        "serving shard 0",
        f"nobody knows; {again}",
        f"nobody may know; {again}",
        "serving shard 0",
    ]
    assert shard.shard.spoken_of


def test_it_is_said_for_how_long_a_shard_has_not_been_served(
    lived: Live, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Lasting(Trouble):
        @property
        def lasts_s(self) -> float:
            return 46.0

    monkeypatch.setattr(shard_module, "Trouble", Lasting)
    log = MemoryLog()
    log.fails_to_load = [ShardError("no broker answers")]
    assert lived(log).loaded.wait(DEADLINE_S)
    assert said(caplog)[0] == (
        "no broker answers; shard 0 will be served again when it is loaded, and was not for 46 s"
    )


def test_nothing_is_said_of_a_shard_that_is_given_away_before_it_was_served(
    lived: Live, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    log = MemoryLog()
    log.fails_to_load = [FencedError("somebody else serves it")]
    shard = lived(log)
    assert shard.fenced.wait(DEADLINE_S)
    assert said(caplog) == []
    assert not shard.shard.spoken_of


@pytest.fixture
def rests(lived: Live, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long a shard would rest, as it does elsewhere; it rests for no time."""
    resting_s: list[float] = []
    monkeypatch.setattr(shard_module, "_FIRST_REST_S", 0.5)
    monkeypatch.setattr(error_backoff, "_LONGEST_S", 30.0)
    monkeypatch.setattr(Inbox, "rest", lambda _inbox, rest_s: resting_s.append(rest_s))
    return resting_s


def test_it_is_tried_again_before_a_tenth_of_a_session_is_over(lived: Live, rests: list[float]) -> None:
    """However often it has failed: members must hear of the end of an outage while their sessions last."""
    log = MemoryLog()
    log.fails_to_load = [ShardError("no broker answers") for _ in range(9)]
    assert lived(log).loaded.wait(DEADLINE_S)
    assert max(rests) == rests[-1] == SESSION_MS / 10_000


def test_the_session_counts_that_people_have_set_meanwhile(lived: Live, rests: list[float]) -> None:
    log = MemoryLog()
    shard = lived(log)
    assert shard.loaded.wait(DEADLINE_S)
    shard.put(raw(0, group=SHORT))
    wait_until(lambda: 0 in log.answers)
    log.errors = [ShardError("no broker answers")]
    log.fails_to_load = [ShardError("no broker answers") for _ in range(8)]
    shard.put(raw(1))
    wait_until(lambda: 1 in log.answers)
    assert len(rests) == 9
    assert max(rests) == rests[-1] == SHORT_MS / 10_000


def test_a_session_that_nobody_was_told_of_counts_for_nothing(lived: Live, rests: list[float]) -> None:
    log = MemoryLog()
    shard = lived(log)
    assert shard.loaded.wait(DEADLINE_S)
    log.errors = [ShardError("no broker answers")]
    log.fails_to_load = [ShardError("no broker answers") for _ in range(8)]
    shard.put(raw(0, group=SHORT))
    wait_until(lambda: 0 in log.answers)
    assert max(rests) == rests[-1] == SESSION_MS / 10_000


def test_one_member_at_whose_requests_the_machine_fails_stops_only_itself(
    lived: Live,
) -> None:
    """The shard is loaded again once, not for each of its heartbeats; afterwards it may try again."""
    log = MemoryLog()
    shard = lived(log)
    assert shard.loaded.wait(DEADLINE_S)
    for number in range(0, 10, 2):
        shard.put(raw(number, RAISES), raw(number + 1))
        wait_until(lambda: number + 1 in log.answers)  # noqa: B023  called in here
    assert log.opened == 2
    failed = KafkaErrorCode.UNKNOWN_SERVER_ERROR
    assert log.answers == {number: (0, number // 2 + 1) if number % 2 else (failed, 0) for number in range(10)}
    for _ in range(8):  # each is less than a stall
        shard.clock_ms += 3_000
        shard.shard.inbox.reached(10)  # wakes it
        wait_until(lambda: shard.shard._turn_at_ms == shard.clock_ms)
    shard.put(raw(10, RAISES))
    wait_until(lambda: log.opened == 3)


def test_a_worker_at_whose_requests_the_machine_fails_does_not_come_back_as_another_member(lived: Live) -> None:
    """Each of its processes has another member id; the name of the worker stays."""
    log = MemoryLog()
    shard = lived(log)
    assert shard.loaded.wait(DEADLINE_S)
    for number in range(0, 6, 2):
        failing = heartbeat_of("etl", f"{RAISES}-{number}", worker="w")
        shard.put(raw(number, body=failing), raw(number + 1, body=heartbeat_of("etl", "m", worker="other")))
        wait_until(lambda: number + 1 in log.answers)  # noqa: B023  called in here
    assert log.opened == 2
    refused = {reply.header.correlation_id: reply.body.error_message or "" for reply in log.replies}
    assert "of this worker" in refused[4]


def test_a_worker_that_joined_with_its_name_is_known_by_it_when_a_later_request_fails() -> None:
    machine = EchoMachine()
    machine.handle(RequestArrived(now_ms=0, request=RequestId(0), body=heartbeat_of("etl", "m1", worker="w")))
    faulty = Faulty()
    later = requester_of(heartbeat_of("etl", "m1"), machine.instance_of)
    assert later is not None
    faulty.quarantine(later, now_ms=0, until_ms=10)
    for body, kept_out in [
        (heartbeat_of("etl", "m2", worker="w"), True),
        (heartbeat_of("etl", "m1"), True),
        (heartbeat_of("etl", "m2", worker="v"), False),
        (heartbeat_of("other", "m1", worker="w"), False),
        (heartbeat_of("etl", "m3"), False),
    ]:
        assert faulty.is_quarantined(requester_of(body, EchoMachine().instance_of), 9) is kept_out
    assert not faulty.is_quarantined(later, 10)


def test_pauses_do_not_grow_while_the_machine_fails_at_another_member_each_time(
    lived: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    rests: list[float] = []
    monkeypatch.setattr(shard_module, "_FIRST_REST_S", 0.5)
    monkeypatch.setattr(error_backoff, "_LONGEST_S", 30.0)
    monkeypatch.setattr(Inbox, "rest", lambda _inbox, rest_s: rests.append(rest_s))
    log = MemoryLog()
    shard = lived(log)
    assert shard.loaded.wait(DEADLINE_S)
    for number in range(4):
        shard.put(raw(number, RAISES, group=f"g{number}"))
        wait_until(lambda: number in log.answers)  # noqa: B023  called in here
    log.errors = [OversizedError("too large")]
    shard.put(raw(4))
    wait_until(lambda: 4 in log.answers)
    assert rests == [0.5] * 5


def test_it_is_known_for_how_long_a_shard_has_not_been_served(lived: Live) -> None:
    """Not for how long its last try has failed: until it is loaded, nothing moves in its groups."""
    log = MemoryLog()
    log.loads.clear()
    shard = lived(log)
    shard.clock_ms += 7_000
    assert shard.shard.unserved_s == 7
    log.loads.set()
    assert shard.loaded.wait(DEADLINE_S)
    assert shard.shard.unserved_s == 0
    log.loads.clear()
    log.errors = [ShardError("nobody knows")]
    shard.put(raw(0))
    wait_until(lambda: log.opened == 2)
    shard.clock_ms += 9_000
    assert shard.shard.unserved_s == 9
    log.loads.set()
    wait_until(lambda: 0 in log.answers)
    assert shard.shard.unserved_s == 0


class TestInbox:
    def test_what_is_put_back_comes_first(self) -> None:
        inbox = Inbox()
        inbox.put([raw(0), raw(1)])
        inbox.put_jobs("etl", frozenset({TaskId("old", 0)}))
        taken = inbox.take(0)
        inbox.put([raw(2)])
        inbox.put_jobs("etl", frozenset({TaskId("new", 0)}))
        inbox.put_back(taken)
        again = inbox.take(0)
        assert [request.offset for request in again.requests] == [0, 1, 2]
        assert again.jobs == {"etl": frozenset({TaskId("new", 0)})}

    def test_a_batch_is_bounded_and_says_how_far_it_goes(self) -> None:
        inbox = Inbox()
        inbox.put([raw(offset) for offset in range(1_500)])
        inbox.reached(1_600)
        assert (len(inbox.take(0).requests), inbox.take(0).read_to) == (1_000, 1_600)
