"""The rights on a group's topics that a connection's user needs, depending on what the connection is used for.

The table in ``docs/security.md`` says the same for people. The tests grant exactly the rights in this table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from enum import Enum
from typing import Final

from airflow_provider.state.records import TopicNames


class Operation(str, Enum):
    """An operation that a user can have a right to (Kafka's ``AclOperation``). READ and WRITE imply DESCRIBE."""

    READ = "READ"
    WRITE = "WRITE"
    DESCRIBE = "DESCRIBE"
    CREATE = "CREATE"


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """The right to one operation on a topic, or on another resource.

    :param topic: the name of the topic or resource
    :param resource: the kind of resource, for messages
    """

    topic: str
    operation: Operation
    resource: str = "topic"

    def __str__(self) -> str:
        return f"{self.operation.value} on the {self.resource} {self.topic!r}"


_READ: Final = frozenset({Operation.READ})
_WRITE: Final = frozenset({Operation.WRITE})
_DESCRIBE: Final = frozenset({Operation.DESCRIBE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """The rights on a group's topics that are needed for a purpose.

    :param events: at least DESCRIBE, to check that the topic exists
    :param makes_topics: whether missing topics are created. This is so for submitters and workers. For all others, a
        group without topics is a mistyped name, or does not exist yet
    """

    jobs: frozenset[Operation] = _READ
    status: frozenset[Operation] = _READ
    events: frozenset[Operation] = _DESCRIBE
    makes_topics: bool = False

    @property
    def writes(self) -> bool:
        """Whether any topic is written."""
        return Operation.WRITE in self.jobs | self.status | self.events

    def lacking(self, topics: TopicNames, allowed: Mapping[str, Set[Operation]]) -> Iterator[Right]:
        """The needed rights that the user does not have.

        :param allowed: what the user may do with each topic. A topic that is not in it counts as allowed
        """
        for topic, needed in ((topics.jobs, self.jobs), (topics.status, self.status), (topics.events, self.events)):
            for operation in sorted(needed - allowed.get(topic, needed)):
                yield Right(topic, operation)


WATCHER: Final = Needs()
TOLD_OF_EVENTS: Final = Needs(events=_READ)
SUBMITTER: Final = Needs(jobs=_READ | _WRITE, events=_WRITE, makes_topics=True)
STOPPER: Final = Needs(jobs=_READ | _WRITE, events=_WRITE)
STEERER: Final = Needs(jobs=_READ | _WRITE, status=_READ | _WRITE, events=_WRITE)
RETRIER: Final = Needs(status=_READ | _WRITE, events=_WRITE)
WORKER: Final = Needs(jobs=_READ | _WRITE, status=_READ | _WRITE, events=_WRITE, makes_topics=True)
