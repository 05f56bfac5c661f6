"""The requests of a process to the coordinator, and their replies as events of its member machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from simulation.group import JoinReply, JoinRequest, SyncReply
from simulation.network import Answer, Line

from airflow_provider.group.classic.member.events import (
    CoordinatorFound,
    FindCoordinator,
    HeartbeatAnswered,
    Joined,
    Left,
    Request,
    RequestFailed,
    RequestRejected,
    SendHeartbeat,
    SendJoin,
    SendLeave,
    SendSync,
    Synced,
)
from airflow_provider.group.machine.events import Command
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import MemberId, SubProtocol

if TYPE_CHECKING:
    from simulation.process import Process

REQUEST_TIMEOUT_MS = 5_000
JOIN_GRACE_MS = 5_000


class Wire:
    """Stands for a real worker's ``kafka/group_requests/transport.py``."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._world = process.world
        self._line = Line(process.world.network, process.rng, self._connected)

    def _connected(self) -> bool:
        return self._process.alive and not self._process.cut_off and not self._world.coordinator_away

    def send(self, command: Command) -> None:
        match command:
            case FindCoordinator():
                self._find(command)
            case SendJoin():
                self._join(command)
            case SendSync():
                self._sync(command)
            case SendHeartbeat():
                self._heartbeat(command)
            case SendLeave():
                self._leave(command)
            case _:
                raise AssertionError(f"no way to carry out {command}")

    def _send(
        self, ask: Callable[[Answer], None], request: Request, seq: int, timeout_ms: int = REQUEST_TIMEOUT_MS
    ) -> None:
        process = self._process
        self._line.send(
            ask,
            failed=lambda cause: process.deliver(
                lambda: RequestFailed(now_ms=process.now, seq=seq, request=request, cause=cause)
            ),
            timeout_ms=timeout_ms,
        )

    def _reject(self, seq: int, request: Request, error: KafkaErrorCode, member_id: MemberId = MemberId("")) -> None:
        process = self._process
        process.deliver(
            lambda: RequestRejected(now_ms=process.now, seq=seq, request=request, error=error, member_id=member_id)
        )

    def _find(self, command: FindCoordinator) -> None:
        process = self._process

        def ask(answer: Answer) -> None:
            node = self._world.coordinator.node
            answer(lambda: process.deliver(lambda: CoordinatorFound(now_ms=process.now, seq=command.seq, node=node)))

        self._send(ask, Request.FIND_COORDINATOR, command.seq)

    def _join(self, command: SendJoin) -> None:
        process, settings = self._process, self._process.settings
        request = JoinRequest(
            member_id=command.member_id,
            instance_id=process.worker,
            protocols=command.protocols,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.rebalance_timeout_ms,
        )

        def answered(reply: JoinReply) -> None:
            if reply.error is not KafkaErrorCode.NONE:
                self._reject(command.seq, Request.JOIN, reply.error, reply.member_id)
                return
            process.deliver(
                lambda: Joined(
                    now_ms=process.now,
                    seq=command.seq,
                    generation=reply.generation,
                    protocol=SubProtocol(reply.protocol),
                    leader=reply.leader,
                    member_id=reply.member_id,
                    skip_assignment=reply.skip_assignment,
                    members=reply.members,
                )
            )

        def ask(answer: Answer) -> None:
            if command.node != self._world.coordinator.node:
                answer(lambda: answered(JoinReply(error=KafkaErrorCode.NOT_COORDINATOR)))
            else:
                self._world.coordinator.join(request, lambda reply: answer(lambda: answered(reply)))

        self._send(ask, Request.JOIN, command.seq, settings.rebalance_timeout_ms + JOIN_GRACE_MS)

    def _sync(self, command: SendSync) -> None:
        process = self._process

        def answered(reply: SyncReply) -> None:
            if reply.error is not KafkaErrorCode.NONE:
                self._reject(command.seq, Request.SYNC, reply.error)
            else:
                process.deliver(lambda: Synced(now_ms=process.now, seq=command.seq, assignment=reply.assignment))

        def ask(answer: Answer) -> None:
            if command.node != self._world.coordinator.node:
                answer(lambda: answered(SyncReply(error=KafkaErrorCode.NOT_COORDINATOR)))
                return
            self._world.coordinator.sync(
                command.member_id,
                process.worker,
                command.generation,
                command.protocol.value,
                command.assignments,
                lambda reply: answer(lambda: answered(reply)),
            )

        self._send(ask, Request.SYNC, command.seq, process.settings.rebalance_timeout_ms + JOIN_GRACE_MS)

    def _heartbeat(self, command: SendHeartbeat) -> None:
        process, settings = self._process, self._process.settings
        sent_at = process.now

        def answered(error: KafkaErrorCode) -> None:
            process.deliver(
                lambda: HeartbeatAnswered(
                    now_ms=process.now,
                    sent_at_ms=sent_at,
                    member_id=command.member_id,
                    generation=command.generation,
                    error=error,
                )
            )

        def ask(answer: Answer) -> None:
            coordinator, error = self._world.coordinator, KafkaErrorCode.NOT_COORDINATOR
            if command.node == coordinator.node:
                error = coordinator.heartbeat(command.member_id, process.worker, command.generation)
            answer(lambda: answered(error))

        self._send(ask, Request.HEARTBEAT, command.seq, settings.heartbeat_timeout_ms)

    def _leave(self, command: SendLeave) -> None:
        process = self._process

        def ask(answer: Answer) -> None:
            coordinator, error = self._world.coordinator, KafkaErrorCode.NOT_COORDINATOR
            if command.node == coordinator.node:
                error = coordinator.leave(command.member_id, process.worker)
            if error is KafkaErrorCode.NONE:
                answer(lambda: process.deliver(lambda: Left(now_ms=process.now, seq=command.seq)))
            else:
                answer(lambda: self._reject(command.seq, Request.LEAVE, error))

        self._send(ask, Request.LEAVE, command.seq)
