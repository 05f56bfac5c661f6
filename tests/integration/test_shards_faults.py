"""A coordinator dies or seems dead: another one takes over, and nothing is lost or takes effect twice."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from echo_machine import TICKING, heartbeat_of
from proxied import Network
from shard_bench import LAYOUT, SESSION_S, Asker, CoordinatorCommand, CoordinatorProcess
from shard_process import HANGS
from waiting import wait_until

from airflow_provider.group.declarative.protocol.model import MemberEpoch
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    ConnectGroupHeartbeatRequest,
    ConnectGroupHeartbeatResponse,
)
from airflow_provider.group.declarative.protocol.wire.parts import Assignor
from airflow_provider.group.declarative.server.errors import ShardError
from airflow_provider.group.declarative.server.shard_records import kafka_log, loading
from airflow_provider.kafka.topics.librdkafka import COMMON
from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import MemberId

Start = Callable[..., CoordinatorProcess]


@pytest.fixture
def start(shard_broker: LocalBroker, tmp_path: Path) -> Iterator[Start]:
    """Starts a coordinator process; at the end all of them are killed."""
    started: list[CoordinatorProcess] = []

    def begin(*options: str) -> CoordinatorProcess:
        started.append(CoordinatorProcess(shard_broker.bootstrap_servers, tmp_path, *options))
        return started[-1]

    yield begin
    for each in started:
        each.kill()


@pytest.fixture
def new_asker(shard_broker: LocalBroker) -> Iterator[Callable[[], Asker]]:
    """Makes a client, once the topics exist."""
    with contextlib.ExitStack() as closing:

        def make() -> Asker:
            asker = Asker({"bootstrap.servers": shard_broker.bootstrap_servers})
            closing.callback(asker.close)
            return asker

        yield make


Silence = Callable[[Network], contextlib.AbstractContextManager[None]]


@contextlib.contextmanager
def paused(network: Network) -> Iterator[None]:
    """The broker stands still, as on a host that swaps."""
    assert network.broker.pid is not None
    os.kill(network.broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(network.broker.pid, signal.SIGCONT)


@contextlib.contextmanager
def stalled(network: Network) -> Iterator[None]:
    """The network swallows all answers."""
    network.ways[0].stall()
    try:
        yield
    finally:
        network.ways[0].heal()


def epoch_of(asker: Asker, group: str) -> int:
    return asker.heartbeat(group).member_epoch


def test_the_successor_of_a_killed_coordinator_knows_all_that_was_answered(
    start: Start, new_asker: Callable[[], Asker], group_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first = start()
    first.serves(0, 1)
    asker = new_asker()
    assert [epoch_of(asker, group_id) for _ in range(20)] == [*range(1, 21)]
    second = start()
    wait_until(lambda: len(second.served) == 1 and len(first.served) == 1, "they share the shards")
    assert first.served | second.served == {0, 1}
    assert [epoch_of(asker, group_id) for _ in range(10)] == [*range(21, 31)]
    first.kill()
    killed_at = time.monotonic()
    second.serves(0, 1)
    took_s = time.monotonic() - killed_at
    with capsys.disabled():
        print(f"\na killed coordinator was replaced after {took_s:.1f} s, with a session of {SESSION_S:.0f} s")
    assert epoch_of(asker, group_id) == 31


def test_a_coordinator_that_leaves_in_order_is_replaced_sooner(
    start: Start, new_asker: Callable[[], Asker], group_id: str
) -> None:
    first, second = start(), start()
    wait_until(lambda: len(first.served) == 1 and len(second.served) == 1, "they share the shards")
    asker = new_asker()
    assert epoch_of(asker, group_id) == 1
    first.signal(signal.SIGTERM)
    assert first.wait() == 0, first.log
    second.serves(0, 1)
    assert epoch_of(asker, group_id) == 2


NOTICED = ("another coordinator serves shard", "were assigned to other coordinators")
"""How a coordinator that stood still hears that it was replaced: it is fenced, or its consumer is told first."""


def test_a_zombie_that_goes_on_in_mid_transaction_has_no_effect(
    start: Start, new_asker: Callable[[], Asker], group_id: str
) -> None:
    zombie = start("--hang")
    zombie.serves(0, 1)
    asker = new_asker()
    assert epoch_of(asker, group_id) == 1
    in_the_middle = asker.send(heartbeat_of(group_id, HANGS))
    wait_until(lambda: zombie.paused, "it pauses before it commits")
    heir = start()
    heir.serves(0, 1)
    reply = asker.reply(in_the_middle).body
    assert isinstance(reply, ConnectGroupHeartbeatResponse)
    assert reply.member_epoch == 2
    zombie.signal(signal.SIGCONT)
    wait_until(lambda: any(how in zombie.log for how in NOTICED), lambda: f"it notices\n{zombie.log}")
    assert [epoch_of(asker, group_id) for _ in range(5)] == [*range(3, 8)]  # a second answer to a request would fail


@pytest.mark.parametrize("silent", [paused, pytest.param(stalled, marks=pytest.mark.thorough)])
def test_shards_are_served_again_soon_after_a_broker_was_silent(
    silent: Silence, shard_network: Network, new_asker: Callable[[], Asker], tmp_path: Path, group_id: str
) -> None:
    """It accepts connections and answers nothing, so each call waits for its time-out. However often that has happened,
    the next try comes soon, and the log says how long it has lasted.
    """
    (way,) = shard_network.ways
    only = CoordinatorProcess(way.address, tmp_path)
    try:
        only.serves(0, 1)
        asker = new_asker()
        assert asker.heartbeat(group_id, TICKING).member_epoch == 1
        with silent(shard_network):
            wait_until(lambda: "loaded, and was not for" in only.log, lambda: f"it says how long\n{only.log}")
        served = only.log.count("serving shard")
        wait_until(lambda: only.log.count("serving shard") > served, lambda: f"it serves again\n{only.log}")
        assert epoch_of(asker, group_id) == 2
    finally:
        only.kill()


OUTAGES = 2
"""A coordinator has separate clients for jobs and for shards. Either may notice that the broker is away; the client for
jobs only notices that it is back when it is next used.
"""


def test_shards_are_served_again_when_the_broker_is_back_and_an_outage_is_logged_once(
    start: Start, new_asker: Callable[[], Asker], group_id: str, shard_broker: LocalBroker
) -> None:
    only = start()
    only.serves(0, 1)
    asker = new_asker()
    assert epoch_of(asker, group_id) == 1
    shard_broker.kill()
    wait_until(lambda: "can be reached" in only.log, "it logs the outage")
    shard_broker.start()
    assert epoch_of(asker, group_id) == 2
    wait_until(lambda: "is back after" in only.log, "it logs the end of the outage")
    only.serves(0, 1)
    only.signal(signal.SIGTERM)
    assert only.wait() == 0, only.log
    assert "Traceback" not in only.log, only.log
    assert only.log.count("is back after") <= only.log.count("can be reached") <= OUTAGES, only.log
    lost = only.log.count("were assigned to other coordinators")  # if the outage was longer than its session
    assert only.log.count("shard 0 is no longer served here") == 1 + lost, only.log


@pytest.mark.thorough
def test_offsets_can_be_read_again_after_an_outage_of_the_broker(
    start: Start, shard_broker: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same client works again after it has failed."""
    start().serves(0, 1)  # makes the topics
    monkeypatch.setattr(loading, "_ANSWER_S", 1.0)
    monkeypatch.setattr(kafka_log, "_ANSWER_S", 1.0)
    config = {"bootstrap.servers": shard_broker.bootstrap_servers, **COMMON}
    shard_log = kafka_log.KafkaShardLog(config, 0, 1, group=lambda: None, renewed=False)
    try:
        before = wait_until(lambda: answered(lambda: (shard_log.handled_to(), shard_log.end())), "it is answered")
        shard_broker.kill()
        with pytest.raises(ShardError, match="how far shard 0 is handled is not known"):
            shard_log.handled_to()
        with pytest.raises(ShardError, match="the end of shard 0's requests is not known"):
            shard_log.end()
        shard_broker.start()
        wait_until(lambda: answered(lambda: (shard_log.handled_to(), shard_log.end())) == before, "it is answered")
    finally:
        shard_log.close()


def answered(ask: Callable[[], object]) -> object:
    try:
        return ask()
    except ShardError:
        return None


def test_a_member_joins_at_the_command(
    shard_broker: LocalBroker, new_asker: Callable[[], Asker], group_id: str, tmp_path: Path
) -> None:
    command = CoordinatorCommand(shard_broker.bootstrap_servers, tmp_path)
    try:
        wait_until(lambda: command.log.count("serving shard") == LAYOUT.shards, "it serves")
        body = ConnectGroupHeartbeatRequest(
            group_id=group_id,
            member_id=MemberId("m"),
            member_epoch=MemberEpoch(0),
            rebalance_timeout_ms=1_000,
            client_assignors=(Assignor(name="eager", minimum_version=0, maximum_version=0, version=0),),
            connectors_and_tasks=(),
        )
        reply = new_asker().ask(body).body
        assert reply.error_code in (KafkaErrorCode.NONE, KafkaErrorCode.COMPUTE_ASSIGNMENT), reply
        command.signal(signal.SIGTERM)
        assert command.wait() == 0, command.log
    finally:
        command.kill()
