"""Group requests to a real broker: what the group protocol promises, and what happens without an answer."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, replace

import pytest
from certificates import Certificates
from tcp_proxy import TcpProxy
from waiting import DEADLINE_S

from airflow_provider.kafka.errors import Fault, TransportError
from airflow_provider.kafka.group_requests.messages import JoinRequest, JoinResponse, NodeId, SyncRequest, SyncResponse
from airflow_provider.kafka.group_requests.transport import GroupTransport
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import GenerationId, MemberId, WorkerId

NONE = KafkaErrorCode.NONE


def settings_for(servers: str, **extra: object) -> KafkaSettings:
    return KafkaSettings.from_extra({"bootstrap.servers": servers, **extra}, conn_id="kafka_test")


@pytest.fixture
async def transport(broker: LocalBroker) -> AsyncIterator[GroupTransport]:
    async with GroupTransport(settings_for(broker.bootstrap_servers)) as opened:
        yield opened


async def coordinator_of(transport: GroupTransport, group_id: str) -> NodeId:
    """The coordinator, once the broker has made and loaded the topic in which it keeps groups."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        found = await transport.find_coordinator(group_id)
        if found.error is NONE:
            nobody = GenerationId(1), MemberId("nobody"), None
            if await transport.heartbeat(found.node, group_id, *nobody) is KafkaErrorCode.UNKNOWN_MEMBER_ID:
                return found.node
        await asyncio.sleep(0.05)
    raise AssertionError("no coordinator came up in time")


async def eventually(ask: Callable[[], Awaitable[KafkaErrorCode]], expected: KafkaErrorCode) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while (answer := await ask()) is not expected:
        assert time.monotonic() < deadline, f"still {answer!r}, not {expected!r}"
        await asyncio.sleep(0.02)


@dataclass
class Group:
    """One group as its members see it."""

    transport: GroupTransport
    coordinator: NodeId
    group_id: str

    def request(self, worker: str | None, member_id: str = "", metadata: bytes = b"metadata") -> JoinRequest:
        return JoinRequest(
            group_id=self.group_id,
            session_timeout_ms=120_000,
            rebalance_timeout_ms=120_000,
            member_id=MemberId(member_id),
            group_instance_id=WorkerId(worker) if worker else None,
            protocols=(("sessioned", metadata), ("compatible", metadata)),
            reason="a test",
        )

    async def join(self, worker: str | None, member_id: str = "", metadata: bytes = b"metadata") -> JoinResponse:
        return await self.transport.join(self.coordinator, self.request(worker, member_id, metadata))

    async def sync(
        self, worker: str | None, joined: JoinResponse, assignments: dict[MemberId, bytes] | None = None
    ) -> SyncResponse:
        return await self.transport.sync(
            self.coordinator,
            SyncRequest(
                group_id=self.group_id,
                generation=joined.generation,
                member_id=joined.member_id,
                group_instance_id=WorkerId(worker) if worker else None,
                protocol=joined.protocol,
                assignments=assignments or {},
            ),
        )

    async def heartbeat(self, worker: str | None, joined: JoinResponse) -> KafkaErrorCode:
        return await self.transport.heartbeat(
            self.coordinator,
            self.group_id,
            joined.generation,
            joined.member_id,
            WorkerId(worker) if worker else None,
        )

    async def leave(self, worker: str) -> KafkaErrorCode:
        return await self.transport.leave(
            self.coordinator, self.group_id, MemberId(""), WorkerId(worker), reason="a test"
        )

    async def of_one(self, worker: str) -> JoinResponse:
        """Make a stable group with only this worker, whose assignment is ``mine``."""
        joined = await self.join(worker)
        assert joined.error is NONE
        synced = await self.sync(worker, joined, {joined.member_id: b"mine"})
        assert (synced.error, synced.assignment) == (NONE, b"mine")
        return joined

    async def of_two(self) -> tuple[JoinResponse, JoinResponse]:
        """Make a group led by ``first`` that ``second`` has joined; nobody has synced yet."""
        first = await self.of_one("first")
        joining = asyncio.ensure_future(self.join("second"))
        await eventually(lambda: self.heartbeat("first", first), KafkaErrorCode.REBALANCE_IN_PROGRESS)
        again, second = await asyncio.gather(self.join("first", first.member_id), joining)
        return again, second


@pytest.fixture
async def group(transport: GroupTransport, group_id: str) -> Group:
    return Group(transport, await coordinator_of(transport, group_id), group_id)


async def test_the_first_member_leads_and_is_told_of_itself(group: Group) -> None:
    joined = await group.join("first", metadata=b"\x00\x01binary")
    assert (joined.error, joined.generation, joined.protocol) == (NONE, 1, "sessioned")
    assert joined.leader == joined.member_id
    assert not joined.skip_assignment
    assert [(each.member_id, each.group_instance_id, each.metadata) for each in joined.members] == [
        (joined.member_id, "first", b"\x00\x01binary")
    ]
    synced = await group.sync("first", joined, {joined.member_id: b"\x00assignment"})
    assert (synced.error, synced.assignment) == (NONE, b"\x00assignment")
    assert await group.heartbeat("first", joined) is NONE


async def test_a_heartbeat_announces_a_second_member_and_both_get_the_assignment_of_the_leader(group: Group) -> None:
    first, second = await group.of_two()
    assert (first.generation, second.generation) == (2, 2)
    assert first.leader == first.member_id
    assert second.leader != second.member_id
    assert {each.group_instance_id for each in first.members} == {"first", "second"}
    assert second.members == ()

    waiting = asyncio.ensure_future(group.sync("second", second))
    # While a member waits for its assignment, its heartbeats must get through, on another connection.
    assert await asyncio.wait_for(group.heartbeat("second", second), DEADLINE_S) is NONE
    assert not waiting.done()
    led = await group.sync("first", first, {first.member_id: b"for first", second.member_id: b"for second"})
    assert led.assignment == b"for first"
    assert (await waiting).assignment == b"for second"


async def test_a_static_member_that_comes_back_is_answered_without_a_rebalance(group: Group) -> None:
    before = await group.of_one("first")
    back = await group.join("first")
    assert (back.error, back.generation) == (NONE, before.generation)
    assert back.member_id != before.member_id
    assert back.skip_assignment
    assert (await group.sync("first", back)).assignment == b"mine"


async def test_the_former_process_of_a_static_member_is_fenced(group: Group) -> None:
    before = await group.of_one("first")
    await group.join("first")
    assert await group.heartbeat("first", before) is KafkaErrorCode.FENCED_INSTANCE_ID


async def test_a_dynamic_member_is_first_told_its_id(group: Group) -> None:
    told = await group.join(None)
    assert told.error is KafkaErrorCode.MEMBER_ID_REQUIRED
    assert told.member_id
    joined = await group.join(None, told.member_id)
    assert (joined.error, joined.member_id) == (NONE, told.member_id)
    synced = await group.sync(None, joined, {joined.member_id: b"mine"})
    assert (synced.error, synced.assignment) == (NONE, b"mine")
    assert await group.heartbeat(None, joined) is NONE


async def test_a_heartbeat_of_another_generation_or_member_is_refused(group: Group) -> None:
    joined = await group.of_one("first")
    old = replace(joined, generation=GenerationId(joined.generation - 1))
    assert await group.heartbeat("first", old) is KafkaErrorCode.ILLEGAL_GENERATION
    stranger = replace(joined, member_id=MemberId("nobody"))
    assert await group.heartbeat(None, stranger) is KafkaErrorCode.UNKNOWN_MEMBER_ID


async def test_a_member_that_offers_nothing_in_common_is_refused(group: Group) -> None:
    await group.of_one("first")
    other = replace(group.request("second"), protocols=(("default", b""),))
    refused = await group.transport.join(group.coordinator, other)
    assert refused.error is KafkaErrorCode.INCONSISTENT_GROUP_PROTOCOL


async def test_leaving_for_good_needs_only_the_instance_id(group: Group) -> None:
    joined = await group.of_one("first")
    assert await group.leave("first") is NONE
    assert await group.heartbeat("first", joined) is KafkaErrorCode.UNKNOWN_MEMBER_ID
    assert await group.leave("first") is KafkaErrorCode.UNKNOWN_MEMBER_ID
    (described,) = await group.transport.describe([group.group_id])
    assert (described.state, described.members) == ("Empty", ())


async def test_when_one_leaves_the_others_rebalance(group: Group) -> None:
    first, second = await group.of_two()
    waiting = asyncio.ensure_future(group.sync("second", second))
    await group.sync("first", first, {first.member_id: b"1", second.member_id: b"2"})
    assert (await waiting).assignment == b"2"
    assert await group.leave("second") is NONE
    await eventually(lambda: group.heartbeat("first", first), KafkaErrorCode.REBALANCE_IN_PROGRESS)
    alone = await group.join("first", first.member_id)
    assert (alone.generation, len(alone.members)) == (first.generation + 1, 1)


async def test_describing_and_listing_groups(group: Group) -> None:
    joined = await group.of_one("first")
    here, missing = await group.transport.describe([group.group_id, "no-such-group"])
    assert (here.error, here.state, here.protocol_type, here.protocol) == (NONE, "Stable", "connect", "sessioned")
    (member,) = here.members
    assert (member.member_id, member.group_instance_id) == (joined.member_id, "first")
    assert (member.metadata, member.assignment, member.client_id) == (b"metadata", b"mine", "cospark")
    assert missing.error is KafkaErrorCode.GROUP_ID_NOT_FOUND
    assert (missing.group_id, missing.state) == ("no-such-group", "Dead")

    listed = await group.transport.list_groups()
    assert listed.error is NONE
    assert {each.group_id: (each.protocol_type, each.state) for each in listed.groups}[group.group_id] == (
        "connect",
        "Stable",
    )


async def test_a_membership_can_go_on_over_another_transport(group: Group, broker: LocalBroker) -> None:
    """As after a hand-over to another process, which only knows the coordinator's node id."""
    joined = await group.of_one("first")
    async with GroupTransport(settings_for(broker.bootstrap_servers)) as other:
        moved = Group(other, group.coordinator, group.group_id)
        assert await moved.heartbeat("first", joined) is NONE


async def test_a_join_that_is_given_up_leaves_the_connection_of_the_others_alone(group: Group) -> None:
    first = await group.of_one("first")
    giving_up = asyncio.ensure_future(group.join("second"))
    await eventually(lambda: group.heartbeat("first", first), KafkaErrorCode.REBALANCE_IN_PROGRESS)
    giving_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await giving_up
    assert await group.heartbeat("first", first) is KafkaErrorCode.REBALANCE_IN_PROGRESS
    assert (await group.join("first", first.member_id)).error is NONE


async def test_two_hundred_memberships_share_one_connection_for_heartbeats(group: Group, broker: LocalBroker) -> None:
    port = int(broker.bootstrap_servers.rpartition(":")[2])
    others = connections_to(port)
    groups = [replace(group, group_id=f"{group.group_id}-{number}") for number in range(200)]
    members = await asyncio.gather(*(each.of_one("only") for each in groups))
    for each in groups:
        await each.transport.release(WorkerId("only"))
    answers = await asyncio.gather(
        *(each.heartbeat("only", joined) for each, joined in zip(groups, members, strict=True))
    )
    assert set(answers) == {NONE}
    assert connections_to(port) - others <= 3


def connections_to(port: int) -> int:
    """How many connections this process has to a port on the loopback address."""
    psutil = pytest.importorskip("psutil")
    return sum(
        1
        for each in psutil.Process().net_connections("tcp")
        if each.raddr and each.raddr.port == port and each.status == psutil.CONN_ESTABLISHED
    )


async def test_nobody_listens(unused_port: int) -> None:
    async with GroupTransport(settings_for(f"127.0.0.1:{unused_port}")) as transport:
        with pytest.raises(TransportError, match=rf"cannot connect to 127\.0\.0\.1:{unused_port}") as caught:
            await transport.find_coordinator("any")
    assert caught.value.fault is Fault.CONNECTION, "refused, not waited for"
    assert caught.value.retriable


async def test_a_name_that_does_not_exist() -> None:
    async with GroupTransport(settings_for("no-such-host.invalid:9092")) as transport:
        with pytest.raises(TransportError, match=r"no-such-host\.invalid") as caught:
            await transport.find_coordinator("any")
    assert caught.value.retriable


async def test_a_server_that_never_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        servers = f"127.0.0.1:{silent.getsockname()[1]}"
        impatient = settings_for(servers, **{"socket.connection.setup.timeout.ms": 1000})
        async with GroupTransport(impatient) as transport:
            with pytest.raises(TransportError, match=r"timed out after 1 s") as caught:
                await transport.find_coordinator("any")
    assert caught.value.fault is Fault.TIMEOUT


async def test_a_dead_server_among_the_bootstrap_servers_is_passed_over(broker: LocalBroker, unused_port: int) -> None:
    servers = f"127.0.0.1:{unused_port},{broker.bootstrap_servers}"
    for _ in range(4):  # the order is random
        async with GroupTransport(settings_for(servers)) as transport:
            assert (await transport.list_groups()).error is NONE


async def test_a_silently_dead_idle_connection_is_given_up_sooner_than_a_slow_answer(
    broker: LocalBroker, group_id: str
) -> None:
    with TcpProxy(int(broker.bootstrap_servers.rpartition(":")[2])) as way:
        timeouts = {"socket.connection.setup.timeout.ms": 2_000, "socket.timeout.ms": 10_000 * DEADLINE_S}
        impatient = settings_for(way.address, **timeouts)
        async with GroupTransport(impatient) as transport:
            await transport.find_coordinator(group_id)
            way.strand()
            await asyncio.wait_for(eventually(lambda: found_by(transport, group_id), NONE), DEADLINE_S)


async def found_by(transport: GroupTransport, group_id: str) -> KafkaErrorCode:
    try:
        return (await transport.find_coordinator(group_id)).error
    except TransportError:
        return KafkaErrorCode.NETWORK_EXCEPTION


@pytest.mark.thorough  # each run has it with workers (test_faults_broker.py)
async def test_a_broker_that_is_killed_and_comes_back(group_id: str, caplog: pytest.LogCaptureFixture) -> None:
    with LocalBroker(start_timeout_s=DEADLINE_S) as broker:
        async with GroupTransport(settings_for(broker.bootstrap_servers)) as transport:
            group = Group(transport, await coordinator_of(transport, group_id), group_id)
            joined = await group.of_one("first")
            broker.kill()
            with caplog.at_level(logging.INFO):
                for _ in range(20):
                    with pytest.raises(TransportError) as caught:
                        await group.heartbeat("first", joined)
                    assert caught.value.retriable
            assert [record for record in caplog.records if record.name.startswith("aiokafka")] == []
            broker.start()
            # The group and its member are in the broker's log; the session starts again.
            await eventually(lambda: settled(group, joined), NONE)


async def settled(group: Group, joined: JoinResponse) -> KafkaErrorCode:
    """The answer to a heartbeat, or None while the coordinator is starting."""
    try:
        return await group.heartbeat("first", joined)
    except TransportError:
        return KafkaErrorCode.NETWORK_EXCEPTION


@pytest.fixture
def unused_port() -> Iterator[int]:
    """A port where nobody listens, and that nobody else is given."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


# ---- security

JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.fixture(scope="module")
def guarded(certificates: Certificates) -> Iterator[LocalBroker]:
    """A broker that requires a client certificate and a password."""
    with LocalBroker(
        security_protocol="SASL_SSL",
        properties={
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": certificates.broker.read_text(),
            "ssl.keystore.key": certificates.broker_key.read_text(),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": certificates.authority.read_text(),
            "listener.name.client.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.client.plain.sasl.jaas.config": f'{JAAS} required user_alice="s3cret";',
        },
        start_timeout_s=DEADLINE_S,
    ) as running:
        yield running


def credentials(certificates: Certificates) -> dict[str, object]:
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "s3cret",
        "ssl.ca.location": str(certificates.authority),
        "ssl.certificate.location": str(certificates.client),
        "ssl.key.location": str(certificates.client_key),
        "ssl.key.password": certificates.key_password,
    }


async def test_with_certificate_and_password(guarded: LocalBroker, certificates: Certificates, group_id: str) -> None:
    async with GroupTransport(settings_for(guarded.bootstrap_servers, **credentials(certificates))) as transport:
        group = Group(transport, await coordinator_of(transport, group_id), group_id)
        joined = await group.of_one("first")
        assert await group.heartbeat("first", joined) is NONE


async def test_many_connections_log_at_most_one_line(
    guarded: LocalBroker, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            async with GroupTransport(
                settings_for(guarded.bootstrap_servers, **credentials(certificates))
            ) as transport:
                await transport.list_groups()
    messages = [record.getMessage() for record in caplog.records if record.name.startswith("aiokafka")]
    assert len(messages) <= 1
    assert "s3cret" not in "".join(messages)


async def test_the_same_settings_serve_both_clients(guarded: LocalBroker, certificates: Certificates) -> None:
    from confluent_kafka.admin import AdminClient

    settings = settings_for(guarded.bootstrap_servers, **credentials(certificates))
    client = AdminClient(settings.librdkafka())
    assert len(client.list_topics(timeout=DEADLINE_S).brokers) == 1


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"sasl.password": "guessed"}, "(?i)authentication failed"),
        ({"sasl.mechanism": "SCRAM-SHA-256"}, "(?i)mechanism"),
    ],
)
async def test_refused_credentials_are_a_security_fault_without_a_retry(
    guarded: LocalBroker, certificates: Certificates, wrong: dict[str, object], says: str
) -> None:
    settings = settings_for(guarded.bootstrap_servers, **(credentials(certificates) | wrong))
    async with GroupTransport(settings) as transport:
        with pytest.raises(TransportError, match=says) as caught:
            await transport.find_coordinator("any")
    assert caught.value.fault is Fault.SECURITY
    assert not caught.value.retriable
    assert "guessed" not in str(caught.value)


async def test_a_broker_with_an_untrusted_certificate_is_refused(
    guarded: LocalBroker, certificates: Certificates
) -> None:
    distrustful = credentials(certificates) | {"ssl.ca.location": str(certificates.stranger)}
    async with GroupTransport(settings_for(guarded.bootstrap_servers, **distrustful)) as transport:
        with pytest.raises(TransportError, match="CERTIFICATE_VERIFY_FAILED") as caught:
            await transport.find_coordinator("any")
    assert caught.value.fault is Fault.SECURITY
