"""The settings of librdkafka that belong to each client here, and not to a connection.

A connection says how a cluster is reached. How topics are read and written is decided by the code that does it, and
another value would break it, mostly without a word: ``transactional.id`` makes each write fail, ``retries=0`` loses
records, ``delivery.report.only.error`` lets writers wait for ever, ``auto.offset.reset`` skips records. A connection
may have them for the hooks of others, so they are ignored, and not refused.
"""

from __future__ import annotations

from typing import Final

_OF_CONSUMERS: Final = frozenset(
    {
        "auto.commit.enable",
        "auto.commit.interval.ms",
        "auto.offset.reset",
        "check.crcs",
        "consume.callback.max.messages",
        "coordinator.query.interval.ms",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.partition.eof",
        "fetch.error.backoff.ms",
        "fetch.max.bytes",
        "fetch.message.max.bytes",
        "fetch.min.bytes",
        "fetch.queue.backoff.ms",
        "fetch.wait.max.ms",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.protocol.type",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "isolation.level",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "partition.assignment.strategy",
        "queued.max.messages.kbytes",
        "queued.min.messages",
        "session.timeout.ms",
    }
)
_OF_PRODUCERS: Final = frozenset(
    {
        "acks",
        "batch.num.messages",
        "batch.size",
        "compression.codec",
        "compression.level",
        "compression.type",
        "delivery.report.only.error",
        "delivery.timeout.ms",
        "enable.gapless.guarantee",
        "enable.idempotence",
        "linger.ms",
        "max.in.flight",
        "max.in.flight.requests.per.connection",
        "message.copy.max.bytes",
        "message.max.bytes",
        "message.send.max.retries",
        "message.timeout.ms",
        "partitioner",
        "produce.offset.report",
        "queue.buffering.backpressure.threshold",
        "queue.buffering.max.kbytes",
        "queue.buffering.max.messages",
        "queue.buffering.max.ms",
        "queuing.strategy",
        "request.required.acks",
        "request.timeout.ms",
        "retries",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "sticky.partitioning.linger.ms",
        "transaction.timeout.ms",
        "transactional.id",
    }
)
_OF_ALL: Final = frozenset(
    {
        "allow.auto.create.topics",
        "enabled_events",
        "receive.message.max.bytes",
        "topic.blacklist",
        "topic.metadata.propagation.max.ms",
        "topic.metadata.refresh.fast.interval.ms",
    }
)

OWN_SETTINGS: Final = _OF_CONSUMERS | _OF_PRODUCERS | _OF_ALL
"""Their names, with all aliases."""
