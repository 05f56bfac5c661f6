"""What can go wrong with a group's topics."""

from __future__ import annotations


class LogError(Exception):
    """A topic could not be read or written; the message names the topic and the reason."""


class BrokerAwayError(LogError):
    """No broker answered in time."""

    def __init__(self, servers: str, doing: str, reason: str) -> None:
        super().__init__(
            f"no broker answered at {servers} while {doing}{': ' + reason if reason else ''};"
            " check bootstrap.servers of the connection, and that the broker runs"
        )
        self.servers = servers
        self.doing = doing
        self.reason = reason

    def __reduce__(self) -> tuple[type[BrokerAwayError], tuple[str, str, str]]:
        return type(self), (self.servers, self.doing, self.reason)


class TopicRightsError(LogError):
    """The connection's user may not do what is needed."""

    def __init__(self, topic: str, operation: str) -> None:
        super().__init__(
            f"the connection's user has no right to {operation} on the topic {topic!r}:"
            f" allow it the operation {operation} there, or use a connection whose user may"
        )
        self.topic = topic
        self.operation = operation

    def __reduce__(self) -> tuple[type[TopicRightsError], tuple[str, str]]:
        return type(self), (self.topic, self.operation)


class NoTopicError(LogError):
    """A topic that should be read does not exist."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"the topic {topic!r} does not exist: no job was submitted to this group and no worker started"
        )
        self.topic = topic

    def __reduce__(self) -> tuple[type[NoTopicError], tuple[str]]:
        return type(self), (self.topic,)


class TopicRenewedError(LogError):
    """A topic was deleted and made anew: what was read from it is not in it any more."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"the topic {topic!r} was deleted and made anew: it ends before what has been read from it")
        self.topic = topic

    def __reduce__(self) -> tuple[type[TopicRenewedError], tuple[str]]:
        return type(self), (self.topic,)


class LogTimeoutError(LogError, TimeoutError):
    """What was waited for did not come in time, though the broker is there."""
