"""How far requests are handled, and what coordinators have noted beside that: it lasts as long as the requests do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from airflow_provider.group.declarative.protocol.sharding import (
    COORDINATORS,
    RECORDS_TOPIC,
    REQUESTS_TOPIC,
    partition_of,
)
from airflow_provider.group.declarative.protocol.wire.records import group_id_of
from airflow_provider.group.declarative.server.errors import ShardError
from airflow_provider.group.declarative.server.shard_records.loading import read_moment
from airflow_provider.kafka.settings import principal_of
from airflow_provider.kafka.topics.errors import PartitionsError, RightsError, TopicError
from airflow_provider.kafka.topics.librdkafka import COMMON, make_client
from airflow_provider.kafka.topics.rights import Operation, Right

_ANSWER_S: Final = 5.0


class Note(NamedTuple):
    """The metadata of a committed offset.

    :param recorded_to: where the records ended then, at least
    :param shards: how many shards there were; 0: not noted
    :param granted_ms: the longest session that members of the shard may have had then; 0: not noted
    """

    recorded_to: int
    shards: int = 0
    granted_ms: int = 0

    def written(self) -> str:
        return " ".join(map(str, self))


class Handled(NamedTuple):
    """How far requests are handled, as the last transaction that has handled some has committed it.

    :param to: the offset of the first request that no committed transaction has handled
    """

    to: int
    note: Note


def read_note(metadata: str | None) -> Note:
    """Read metadata, whoever has written it. Earlier versions of this program have noted only where records ended."""
    words = (metadata or "").split(" ")
    if not all(word.isdecimal() for word in words):
        return Note(0)
    return Note(*map(int, words[: len(Note._fields)]))


def read_handled(config: Mapping[str, Any], shard: int) -> Handled:
    """Ask how far requests are handled, by a client of its own: an admin client that got no answer in time, because no
    broker was there, gets none later either, or ends the process (librdkafka 2.16).

    :raises ShardError: no broker can tell
    """
    (committed,) = _committed(config, [shard], isolation="read_committed")
    return Handled(max(0, int(committed.offset)), read_note(committed.metadata))


def check_shards(config: Mapping[str, Any], shards: int) -> None:
    """Check that groups are in the shards in which earlier coordinators have served them. When no coordinator has run
    for ``offsets.retention.minutes``, by default a week, brokers forget what was noted. The groups' records stay, and
    where they are says the same.

    :param shards: the present number
    :raises ShardError: no broker can tell
    :raises RightsError: this user may not read it
    :raises PartitionsError: there were not as many before
    """
    noted = {
        read_note(committed.metadata).shards
        for committed in _committed(config, range(shards), isolation="read_uncommitted")  # others may be serving
    }
    if other := noted - {0, shards}:
        raise _moved(shards, f"groups are served in {max(other)} shards")
    if shards not in noted and (group := _misplaced(config, shards)) is not None:
        raise _moved(shards, f"group {group!r} was served in another number of shards")


def _misplaced(config: Mapping[str, Any], shards: int) -> str | None:
    """A group with a record in another shard than its own. None: there is no such group.

    :raises ShardError: the records can't be read
    """
    for shard in range(shards):
        for key, value, _ in read_moment(config, shard, given_up=lambda: False):
            if value is not None and (group := group_id_of(key)) is not None and partition_of(group, shards) != shard:
                return group
    return None


def _moved(shards: int, before: str) -> PartitionsError:
    return PartitionsError(
        f"the topics {REQUESTS_TOPIC!r} and {RECORDS_TOPIC!r} have {shards} partitions, but {before}: with another"
        " number, their members would ask other coordinators, which know nothing of them. Delete both topics: they are"
        " created again, workers stop their tasks and join again after a session, and settings of groups have to be set"
        " again"
    )


def _committed(config: Mapping[str, Any], shards: range | list[int], *, isolation: str) -> list[TopicPartition]:
    consumer = make_client(Consumer, {**config, **COMMON, "group.id": COORDINATORS, "isolation.level": isolation})
    doing = f"how far shard {', '.join(map(str, shards))} is handled"
    try:
        found = consumer.committed([TopicPartition(REQUESTS_TOPIC, shard) for shard in shards], timeout=_ANSWER_S)
    except KafkaException as failed:
        raise _unknown(config, doing, _said_beside(consumer) or failed.args[0]) from failed
    finally:
        consumer.close()
    for committed in found:
        if committed.error is not None:
            raise _unknown(config, doing, committed.error)
    return found


def _said_beside(consumer: Consumer) -> KafkaError | None:
    """Librdkafka asks again and again for the coordinator of a group that it may not ask for. Here it says so."""
    message = consumer.poll(0.5)
    return None if message is None else message.error()


def _unknown(config: Mapping[str, Any], doing: str, error: KafkaError) -> TopicError:
    if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
        return RightsError((Right(COORDINATORS, Operation.READ, "group"),), principal_of(config))
    return ShardError(f"{doing} is not known: {error.str()}")
