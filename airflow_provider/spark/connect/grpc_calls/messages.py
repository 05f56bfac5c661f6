"""Spark Connect's requests as bytes, and what is read from the responses.

The field numbers are those of ``base.proto`` and ``commands.proto``, which Spark never changes.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from airflow_provider.spark.connect.grpc_calls.protobuf import Message, message, number, text
from airflow_provider.spark.local.streaming.query_progress import QueryProgress, is_in_batch

_SESSION_ID: Final = 1
_USER_CONTEXT: Final = 2
_PLAN: Final = 3
_EXECUTE_CLIENT: Final = 4
_INTERRUPT_CLIENT: Final = 3
_INTERRUPT_TYPE: Final = 4
_INTERRUPT_ALL: Final = 1
_RELEASE_CLIENT: Final = 3
_FORGET_OPERATION: Final = 3
_FORGET_CLIENT: Final = 4
_FORGET_ALL: Final = 5
_FORGET_UNTIL: Final = 6
_RESPONSE_ID: Final = 1
_INTERRUPTED_IDS: Final = 2
_FOUND_OPERATION: Final = 2
_CONFIG_CLIENT: Final = 4
_CONFIG_OPERATION: Final = 3
_SET: Final = 1
_SET_PAIRS: Final = 1
_GET_OPTION: Final = 4
_GET_KEYS: Final = 1
_KEY: Final = 1
_VALUE: Final = 2
_CONFIG_PAIRS: Final = 2
_OF_OPERATIONS: Final = 5
_STATUS_CLIENT: Final = 3
_OPERATIONS: Final = 3
_OPERATION_ID: Final = 1
_STATE: Final = 2
_RUNNING: Final = 2
"""Also the state of an interrupted operation, until it has ended. An operation that has ended and was not closed is in
another state, *terminating*, and so is a listener of queries all the time."""

_COMMAND: Final = 2
_QUERY_COMMAND: Final = 7
_MANAGER_COMMAND: Final = 9
_QUERY_ID: Final = 1
_STATUS: Final = 2
_LAST_PROGRESS: Final = 3
_STOP: Final = 5
_EXCEPTION: Final = 8
_ACTIVE: Final = 1

_QUERY_RESULT: Final = 9
_MANAGER_RESULT: Final = 11
_RESULT_STATUS: Final = 2
_RESULT_PROGRESS: Final = 3
_RESULT_EXCEPTION: Final = 5
_STATUS_MESSAGE: Final = 1
_TRIGGER_ACTIVE: Final = 3
_IS_ACTIVE: Final = 4
_PROGRESS_JSON: Final = 5
_EXCEPTION_MESSAGE: Final = 1
_ERROR_CLASS: Final = 2
_STACK_TRACE: Final = 3
_ACTIVE_QUERIES: Final = 1

_ID: Final = 1
_RUN_ID: Final = 2


class NoAnswerInItError(ValueError):
    """A response does not contain the result that was asked for."""


@dataclass(frozen=True, slots=True)
class RunningQuery:
    query_id: str
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStatus:
    """What a query does now.

    :param is_active: whether it is running
    :param in_batch: whether it is in a batch, looks for one, or has not come so far since its start
    """

    is_active: bool
    in_batch: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Makes the requests of one caller.

    :param user_agent: shown by the server
    """

    user_id: str
    user_agent: str

    def status(self, session_id: str, query: RunningQuery) -> bytes:
        return self._of_query(session_id, query, _STATUS)

    def last_progress(self, session_id: str, query: RunningQuery) -> bytes:
        return self._of_query(session_id, query, _LAST_PROGRESS)

    def error(self, session_id: str, query: RunningQuery) -> bytes:
        return self._of_query(session_id, query, _EXCEPTION)

    def stop(self, session_id: str, query: RunningQuery) -> bytes:
        return self._of_query(session_id, query, _STOP)

    def running(self, session_id: str) -> bytes:
        """Asks which queries run in the session."""
        return self._execute(session_id, message(_MANAGER_COMMAND, number(_ACTIVE, True)))

    def forget_nothing(self, session_id: str) -> bytes:
        """Releases an operation that does not exist. This changes nothing, but fails if the server does not have the
        session. Other requests would create the session.
        """
        operation = text(_FORGET_OPERATION, str(uuid.uuid4()))
        return self._of(session_id, _FORGET_CLIENT) + operation + message(_FORGET_ALL)

    def forget_nothing_of(self, session_id: str, operation_id: str) -> bytes:
        """Releases responses that do not exist. This changes nothing; the answer says whether the server has the
        operation.
        """
        response = message(_FORGET_UNTIL, text(_RESPONSE_ID, str(uuid.uuid4())))
        return self._of(session_id, _FORGET_CLIENT) + text(_FORGET_OPERATION, operation_id) + response

    def interrupt_all(self, session_id: str) -> bytes:
        """Interrupts what runs in the session. The session is created if it does not exist."""
        return self._of(session_id, _INTERRUPT_CLIENT) + number(_INTERRUPT_TYPE, _INTERRUPT_ALL)

    def operations(self, session_id: str) -> bytes:
        """The states of all operations of the session. It is created if it does not exist."""
        return self._of(session_id, _STATUS_CLIENT) + message(_OF_OPERATIONS)

    def release_session(self, session_id: str) -> bytes:
        return self._of(session_id, _RELEASE_CLIENT)

    def set_conf(self, session_id: str, key: str, value: str) -> bytes:
        """Sets a setting of the session. The session is created if it does not exist."""
        pair = message(_SET_PAIRS, text(_KEY, key), text(_VALUE, value))
        return self._of(session_id, _CONFIG_CLIENT) + message(_CONFIG_OPERATION, message(_SET, pair))

    def conf(self, session_id: str, key: str) -> bytes:
        """Asks for a setting of the session. The session is created if it does not exist."""
        asked = message(_GET_OPTION, text(_GET_KEYS, key))
        return self._of(session_id, _CONFIG_CLIENT) + message(_CONFIG_OPERATION, asked)

    def _of_query(self, session_id: str, query: RunningQuery, command: int) -> bytes:
        ids = message(_QUERY_ID, text(_ID, query.query_id), text(_RUN_ID, query.run_id))
        return self._execute(session_id, message(_QUERY_COMMAND, ids, number(command, True)))

    def _execute(self, session_id: str, command: bytes) -> bytes:
        return self._of(session_id, _EXECUTE_CLIENT) + message(_PLAN, message(_COMMAND, command))

    def _of(self, session_id: str, client: int) -> bytes:
        user = message(_USER_CONTEXT, text(_ID, self.user_id))
        return text(_SESSION_ID, session_id) + user + text(client, self.user_agent)


def read_status(answers: Iterable[bytes]) -> QueryStatus:
    status = _result(answers, _QUERY_RESULT).message(_RESULT_STATUS)
    if status is None:
        raise NoAnswerInItError("it does not say whether the query runs")
    in_batch = is_in_batch(status.text(_STATUS_MESSAGE), trigger_active=bool(status.number(_TRIGGER_ACTIVE)))
    return QueryStatus(is_active=bool(status.number(_IS_ACTIVE)), in_batch=in_batch)


def read_last_progress(answers: Iterable[bytes]) -> QueryProgress | None:
    """None: there has been no batch."""
    progress = _result(answers, _QUERY_RESULT).message(_RESULT_PROGRESS)
    told = progress.texts(_PROGRESS_JSON) if progress is not None else ()
    return QueryProgress.of(json.loads(told[-1])) if told else None


def read_error(answers: Iterable[bytes]) -> str | None:
    """With Java's trace, which begins with the message and names the causes; None: the query has not failed."""
    said = _result(answers, _QUERY_RESULT).message(_RESULT_EXCEPTION)
    fields = (_STACK_TRACE, _EXCEPTION_MESSAGE, _ERROR_CLASS)
    return None if said is None else next(filter(None, map(said.text, fields)), None)


def read_running(answers: Iterable[bytes]) -> list[RunningQuery]:
    active = _result(answers, _MANAGER_RESULT).message(_ACTIVE)
    queries = active.messages(_ACTIVE_QUERIES) if active is not None else ()
    ids = [query.message(_ID) for query in queries]
    return [RunningQuery(each.text(_ID), each.text(_RUN_ID)) for each in ids if each is not None]


def read_interrupted(answer: bytes) -> frozenset[str]:
    """The ids of the operations that had not ended."""
    return frozenset(Message(answer).texts(_INTERRUPTED_IDS))


def read_has_operation(answer: bytes) -> bool:
    return bool(Message(answer).text(_FOUND_OPERATION))


def read_executing(answer: bytes) -> frozenset[str]:
    """The ids of the operations that have not ended."""
    operations = Message(answer).messages(_OPERATIONS)
    return frozenset(each.text(_OPERATION_ID) for each in operations if each.number(_STATE) == _RUNNING)


def read_conf(answer: bytes) -> str | None:
    """The setting that was asked for; None: it is not set."""
    for pair in Message(answer).messages(_CONFIG_PAIRS):
        return pair.text(_VALUE) or None
    return None


def _result(answers: Iterable[bytes], field: int) -> Message:
    """The server may send responses about its progress as well: skip them."""
    for answer in map(Message, answers):
        found = answer.message(field)
        if found is not None:
            return found
    raise NoAnswerInItError("it does not contain the result that was asked for")
