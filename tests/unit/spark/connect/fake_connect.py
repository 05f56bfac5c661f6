"""A Spark Connect server without Spark: real messages over a real connection, for the calls about queries."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import grpc
from pyspark.sql.connect.proto import (
    ConfigRequest,
    ConfigResponse,
    ExecutePlanRequest,
    ExecutePlanResponse,
    InterruptRequest,
    InterruptResponse,
    KeyValue,
    ReleaseExecuteRequest,
    ReleaseExecuteResponse,
    ReleaseSessionRequest,
    ReleaseSessionResponse,
    SparkConnectServiceServicer,
)
from pyspark.sql.connect.proto.base_pb2_grpc import add_SparkConnectServiceServicer_to_server

from airflow_provider.spark.connect.handle import QueryHandle
from airflow_provider.spark.connect.server import ConnectServer, ConnectSettings

HOST = "127.0.0.1"
Context: TypeAlias = Any  # grpc.aio.ServicerContext, which has no types here


@dataclass
class FakeQuery:
    """A query that was started."""

    query_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    run_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    active: bool = True
    error: str = ""
    batch: int = -1
    says_nonsense: bool = False
    in_batch: bool = True

    @property
    def progress(self) -> list[str]:
        sources = [
            {"numInputRows": 2, "processedRowsPerSecond": 0.5},
            {"numInputRows": 3, "processedRowsPerSecond": 1.0},
        ]
        return [json.dumps({"batchId": self.batch, "sources": sources})] if self.batch >= 0 else []


class FakeConnect(SparkConnectServiceServicer):
    """A server whose sessions and queries a test may change at any time.

    :ivar refusal: how it refuses each call; None: it does not
    :ivar speaks: set while it answers; otherwise all calls wait
    :ivar answers_after_s: how long each answer takes
    :ivar token: the token that it wants; empty: none
    :ivar begins_none: how it refuses to create a session, while it answers in existing ones; None: it does not
    :ivar forgets_to_close: whether it only says that it has released a session
    :ivar executing: by session, the ids of the operations that it executes, also when they are interrupted. A start of
        a query is among them until its client says that it has read the answer
    :ivar keeps_secret: with which it refuses to say what it executes
    :ivar interrupted: the operations that it has named to who interrupted them; it names none again
    :ivar refuses_once: by what it is asked, with which it refuses this the next time
    :ivar no_query: how it says that it does not have a query; ``{}`` stands for its id
    :ivar at_once: how many calls there were at most at one time
    :ivar peers: from which connections it was asked
    :ivar metadata: what came with the last call
    """

    def __init__(self, *, port: int = 0, credentials: grpc.ServerCredentials | None = None) -> None:
        self.port = port
        self.sessions: dict[str, list[FakeQuery]] = {}
        self.closed: set[str] = set()
        self.conf: dict[str, dict[str, str]] = {}
        self.refuses_conf = False
        self.asked: Counter[str] = Counter()
        self.refusal: tuple[grpc.StatusCode, str] | None = None
        self.speaks = asyncio.Event()
        self.speaks.set()
        self.answers_after_s = 0.0
        self.token = ""
        self.begins_none: tuple[grpc.StatusCode, str] | None = None
        self.forgets_to_close = False
        self.executing: dict[str, set[str]] = {}
        self.keeps_secret: tuple[grpc.StatusCode, str] | None = None
        self.interrupted: set[str] = set()
        self.refuses_once: dict[str, tuple[grpc.StatusCode, str]] = {}
        self.no_query = "[CONNECT_INVALID_PLAN.STREAMING_QUERY_NOT_FOUND] no query"
        self.at_once = 0
        self.peers: set[str] = set()
        self.metadata: dict[str, str] = {}
        self._now = 0
        self._credentials = credentials
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        self._server = grpc.aio.server()
        add: Any = add_SparkConnectServiceServicer_to_server
        add(self, self._server)
        address = f"{HOST}:{self.port}"
        if self._credentials is None:
            self.port = self._server.add_insecure_port(address)
        else:
            self.port = self._server.add_secure_port(address, self._credentials)
        await self._server.start()

    async def stop(self) -> None:
        """Stop listening."""
        self.speaks.set()
        if self._server is not None:
            await self._server.stop(None)

    def forget(self) -> None:
        """Forget all sessions, as after a restart."""
        self.sessions.clear()
        self.closed.clear()

    def settings(self, *, host: str = HOST, token: str = "") -> ConnectSettings:
        return ConnectSettings(server=ConnectServer(host=host, port=self.port), token=token)

    def handle(self, query: FakeQuery | None = None, session_id: str = "") -> QueryHandle:
        """The handle of this query, which then runs in the session; without a query, the handle of the session."""
        session_id = session_id or str(uuid.uuid4())
        server = self.settings().server
        if query is None:
            return QueryHandle(server=server, session_id=session_id)
        self.sessions.setdefault(session_id, []).append(query)
        return QueryHandle(server=server, session_id=session_id, query_id=query.query_id, run_id=query.run_id)

    async def ExecutePlan(self, request: ExecutePlanRequest, context: Context) -> AsyncIterator[ExecutePlanResponse]:  # noqa: N802
        command = request.plan.command
        name = command.WhichOneof("command_type")
        if name == "write_stream_operation_start":
            queries = await self._enter("start", request, context)
            queries.append(started := FakeQuery())
            self.executing.setdefault(request.session_id, set()).add(request.operation_id)
            same: dict[str, Any] = {"session_id": request.session_id, "operation_id": request.operation_id}
            response = ExecutePlanResponse(**same, response_id=str(uuid.uuid4()))
            response.write_stream_operation_start_result.query_id.CopyFrom(_id(started))
            yield response
            yield ExecutePlanResponse(**same, result_complete=ExecutePlanResponse.ResultComplete())
        elif name == "streaming_query_manager_command":
            queries = await self._enter("running", request, context)
            yield self._running(queries)
        else:
            asked = command.streaming_query_command
            queries = await self._enter(str(asked.WhichOneof("command")), request, context)
            wanted = (asked.query_id.id, asked.query_id.run_id)
            query = next((each for each in queries if (each.query_id, each.run_id) == wanted), None)
            if query is None:
                await context.abort(grpc.StatusCode.INTERNAL, self.no_query.format(asked.query_id.id))
            assert query is not None
            yield ExecutePlanResponse(execution_progress=ExecutePlanResponse.ExecutionProgress())
            yield self._answer(asked, query)

    async def Config(self, request: ConfigRequest, context: Context) -> ConfigResponse:  # noqa: N802
        await self._enter("config", request, context)
        if self.refuses_conf:
            await context.abort(grpc.StatusCode.INTERNAL, "[CONFIG_NOT_AVAILABLE] no such setting")
        conf = self.conf.setdefault(request.session_id, {})
        conf.update({pair.key: pair.value for pair in request.operation.set.pairs})
        pairs = [KeyValue(key=key, value=conf.get(key)) for key in request.operation.get_option.keys]
        return ConfigResponse(session_id=request.session_id, pairs=pairs)

    async def Interrupt(self, request: InterruptRequest, context: Context) -> InterruptResponse:  # noqa: N802
        await self._enter("interrupt", request, context)
        executing = self.executing.get(request.session_id, set()) - self.interrupted
        self.interrupted |= executing
        return InterruptResponse(session_id=request.session_id, interrupted_ids=sorted(executing))

    async def GetStatus(self, request: Any, context: Context) -> Any:  # noqa: N802  - since Spark 4.2
        from pyspark.sql.connect.proto import GetStatusResponse

        if self.keeps_secret is not None:
            await context.abort(*self.keeps_secret)
        await self._enter("status", request, context)
        status = GetStatusResponse.OperationStatus
        listens = status(operation_id="a listener", state=status.OPERATION_STATE_TERMINATING)
        executing = self.executing.get(request.session_id, ())
        said = [listens, *(status(operation_id=each, state=status.OPERATION_STATE_RUNNING) for each in executing)]
        return GetStatusResponse(session_id=request.session_id, operation_statuses=said)

    async def ReleaseExecute(self, request: ReleaseExecuteRequest, context: Context) -> ReleaseExecuteResponse:  # noqa: N802
        if request.session_id not in self.sessions and request.session_id not in self.closed:
            self.asked["session"] += 1
            await context.abort(grpc.StatusCode.INTERNAL, "[INVALID_HANDLE.SESSION_NOT_FOUND] Session not found.")
        await self._enter("session", request, context)
        executing = self.executing.get(request.session_id, set())
        if request.HasField("release_all"):
            executing.discard(request.operation_id)
        if request.operation_id in executing:
            self.asked["operation"] += 1
            await context.abort(grpc.StatusCode.INTERNAL, "[INVALID_CURSOR.POSITION_NOT_FOUND] no such response")
        return ReleaseExecuteResponse(session_id=request.session_id)

    async def ReleaseSession(self, request: ReleaseSessionRequest, context: Context) -> ReleaseSessionResponse:  # noqa: N802
        """Release a session. As in Spark, this has no effect if the session does not exist."""
        self.asked["release"] += 1
        if request.session_id in self.sessions and not self.forgets_to_close:
            assert not any(query.active for query in self.sessions[request.session_id]), "stopped before"
            assert not self.executing.get(request.session_id), "waited for before"
            del self.sessions[request.session_id]
            self.closed.add(request.session_id)
        return ReleaseSessionResponse(session_id=request.session_id)

    async def _enter(self, what: str, request: Any, context: Context) -> list[FakeQuery]:
        """Common to all calls. Most of them create the session if it does not exist."""
        self.asked[what] += 1
        self.peers.add(context.peer())
        self.metadata = {str(name): str(value) for name, value in context.invocation_metadata() or ()}
        assert request.user_context.user_id == "cospark"
        self._now += 1
        self.at_once = max(self.at_once, self._now)
        try:
            await self.speaks.wait()
            await asyncio.sleep(self.answers_after_s)
        finally:
            self._now -= 1
        if self.refusal is not None:
            await context.abort(*self.refusal)
        if what in self.refuses_once:
            await context.abort(*self.refuses_once.pop(what))
        if self.token and self.metadata.get("authorization") != f"Bearer {self.token}":
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "Invalid authentication token")
        if request.session_id in self.closed:
            await context.abort(grpc.StatusCode.INTERNAL, "[INVALID_HANDLE.SESSION_CLOSED] Session was closed.")
        if self.begins_none is not None and request.session_id not in self.sessions:
            await context.abort(*self.begins_none)
        return self.sessions.setdefault(request.session_id, [])

    def _running(self, queries: list[FakeQuery]) -> ExecutePlanResponse:
        response = ExecutePlanResponse()
        active = response.streaming_query_manager_command_result.active
        active.SetInParent()
        for query in queries:
            if query.active:
                active.active_queries.add().id.CopyFrom(_id(query))
        return response

    def _answer(self, asked: Any, query: FakeQuery) -> ExecutePlanResponse:
        response = ExecutePlanResponse()
        result = response.streaming_query_command_result
        result.query_id.CopyFrom(_id(query))
        command = asked.WhichOneof("command")
        if command == "status" and not query.says_nonsense:
            result.status.is_active = query.active
            result.status.is_trigger_active = query.in_batch
        elif command == "last_progress":
            result.recent_progress.recent_progress_json.extend(query.progress)
        elif command == "exception" and query.error:
            result.exception.exception_message = query.error
        elif command == "stop":
            query.active = False
        return response


def _id(query: FakeQuery) -> Any:
    from pyspark.sql.connect.proto import StreamingQueryInstanceId

    return StreamingQueryInstanceId(id=query.query_id, run_id=query.run_id)
