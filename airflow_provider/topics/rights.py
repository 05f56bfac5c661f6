"""What a connection's user must be allowed to do with a group's topics, depending on what it is used for.

The table in ``docs/security.md`` says the same for people; the tests set exactly the rights that stand there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from enum import Enum
from typing import Final

from airflow_provider.records import TopicNames


class Operation(str, Enum):
    """What can be allowed to somebody (Kafka's ``AclOperation``). READ and WRITE imply DESCRIBE."""

    READ = "READ"
    WRITE = "WRITE"
    DESCRIBE = "DESCRIBE"
    CREATE = "CREATE"


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One thing that a user may do with one topic, or with another resource of that name."""

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
    """What somebody who takes part in a group does with its topics.

    :param events: at least DESCRIBE, to see that the topic is there
    :param makes_topics: whether those that are missing are made: by those who give a group something to do, or work for
        it. To others a name without topics is a mistyped one, or one that they are too early for
    """

    jobs: frozenset[Operation] = _READ
    status: frozenset[Operation] = _READ
    events: frozenset[Operation] = _DESCRIBE
    makes_topics: bool = False

    @property
    def writes(self) -> bool:
        return Operation.WRITE in self.jobs | self.status | self.events

    def lacking(self, topics: TopicNames, allowed: Mapping[str, Set[Operation]]) -> Iterator[Right]:
        """The rights that are needed and not there.

        :param allowed: what the user may do with each topic; of one that is missing here nothing is known
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
