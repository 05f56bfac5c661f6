"""Errors of reading and writing a group's topics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from airflow_provider.kafka.errors import CHECK_SERVERS
from airflow_provider.kafka.topics.rights import Operation, Right
from airflow_provider.values.in_short import in_short
from airflow_provider.values.model import TaskId

if TYPE_CHECKING:
    from typing_extensions import Self


class TopicError(Exception):
    """A topic could not be read or written. The message names the topic and the reason.

    Airflow hands errors on to other processes: there they are made again of what they were made of here.
    """

    _made_of: tuple[object, ...]

    def __new__(cls, *made_of: object) -> Self:
        error = super().__new__(cls, *made_of)
        error._made_of = made_of
        return error

    def __reduce__(self) -> tuple[type[Self], tuple[object, ...]]:
        return type(self), self._made_of


class PassingError(TopicError):
    """It may pass by itself: callers that have time try again."""


class LastingError(TopicError):
    """It lasts until somebody acts: whoever meets it gives up."""


class BrokerAwayError(PassingError):
    """No broker answered in time."""

    def __init__(self, servers: str, doing: str, reason: str) -> None:
        super().__init__(
            f"no broker answered at {servers} while {doing}{': ' + reason if reason else ''}; {CHECK_SERVERS}"
        )
        self.servers = servers
        self.reason = reason


class UnsureError(BrokerAwayError):
    """No broker has confirmed in time that a record is stored. It may be stored all the same, perhaps later."""

    def __str__(self) -> str:
        return f"{super().__str__()}. It may be stored all the same: check this before you try again"


class HalfDoneError(TopicError):
    """The records of an operation are stored, but perhaps not all records by which failed tasks are tried again.

    :param tasks: the failed tasks
    """

    def __init__(self, job: str, tasks: Iterable[TaskId], failed: TopicError) -> None:
        super().__init__(
            f"job {job!r}: only a part of this was done. The next try of failed tasks ({in_short(sorted(tasks))}) may"
            f" not be stored: retry the job's failed tasks when the broker is back. {failed}"
        )
        self.job = job
        self.tasks = tuple(tasks)


class RefusedError(LastingError):
    """The broker refuses the connection's credentials, or its certificate is not trusted. People must act."""

    def __init__(self, servers: str, reason: str, check: str) -> None:
        super().__init__(f"no connection to {servers}: {reason}; {check}")


class RightsError(LastingError):
    """The connection's user lacks rights.

    :param lacking: all rights that are known to be lacking
    :param principal: the user as in ACLs; None if only the broker knows it
    """

    def __init__(self, lacking: Iterable[Right], principal: str | None = None) -> None:
        self.lacking = tuple(lacking)
        self.principal = principal
        rights = ", ".join(map(str, self.lacking))
        these, them = ("it", "it") if len(self.lacking) == 1 else ("these", "them")
        super().__init__(
            f"{principal or 'the user of this connection'} has no right to {rights}:"
            f" grant {these} to {principal or 'that user'}, or use a connection whose user has {them}"
        )


class TopicRightsError(RightsError):
    """The connection's user has no right to an operation on a topic."""

    def __init__(self, topic: str, operation: str, principal: str | None = None) -> None:
        super().__init__((Right(topic, Operation(operation.upper())),), principal)
        self.topic = topic


class PartitionsError(LastingError):
    """A topic has another number of partitions than it must have. Nobody can take partitions away."""


class NoTopicError(TopicError):
    """A topic that is to be read does not exist."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"the topic {topic!r} does not exist: no job was submitted to this group and no worker started, or it was"
            " deleted; `cospark groups list` shows the existing groups"
        )
        self.topic = topic


class TopicRenewedError(PassingError):
    """A topic was deleted and created again, so that it no longer has the records that were read from it. It passes, as
    the reader notices that, too, and reads the new topic.
    """

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"the topic {topic!r} was deleted and created again: it ends before what has been read from it"
        )
        self.topic = topic


class ReaderFaultError(TopicError):
    """A topic is no longer read in this process, because of a fault of this program or for lack of threads, files or
    memory. Its view is outdated, and must not be used. The reader has tried again by itself, in vain; another process
    may succeed.
    """

    def __init__(self, topic: str, fault: str) -> None:
        super().__init__(f"the topic {topic!r} is no longer read because of a fault of this program: {fault}")
        self.topic = topic


class NoLeaderError(PassingError):
    """No broker leads a partition at present."""


class TooLargeError(LastingError):
    """The broker does not accept a record of that size. Trying again does not help."""


class TopicTimeoutError(PassingError, TimeoutError):
    """What was waited for has not happened in time, although the broker answers."""
