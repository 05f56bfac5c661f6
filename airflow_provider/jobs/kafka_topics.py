"""Which topics a cluster has, and what their tables are called."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

_ASK_S: Final = 30.0
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_]")
PLACE_OF_TOPIC: Final = "{topic}"


class ClusterError(Exception):
    """No broker says which topics there are."""


class SameTableError(ValueError):
    """Two topics would be written into one table."""


def topics_like(pattern: str, bootstrap_servers: str, settings: Mapping[str, str]) -> list[str]:
    """Names of topics that the whole pattern matches, in order. Internal topics (``__…``) are left out.

    :param pattern: a regular expression of Python
    :param settings: more of librdkafka's settings, for TLS and SASL
    :raises ClusterError: if no broker answers
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    # What a client logs is in the error, too.
    quiet: dict[str, Any] = {"log_level": 0, "logger": logging.getLogger(__name__)}
    client = AdminClient({**settings, "bootstrap.servers": bootstrap_servers, **quiet})
    try:
        topics = client.list_topics(timeout=_ASK_S).topics
    except KafkaException as failed:
        raise ClusterError(f"no broker of {bootstrap_servers} says which topics there are: {failed}") from failed
    return sorted(name for name in topics if not name.startswith("__") and re.fullmatch(pattern, name))


def tables_of(topics: Iterable[str], template: str) -> Mapping[str, str]:
    """The table of each topic.

    :param template: the name or the path of a table, with ``{topic}`` for the topic. In a name, characters that need
        quotes in SQL become ``_``
    :raises SameTableError: if two topics would have the same table
    """
    tables: dict[str, str] = {}
    owners: dict[str, str] = {}
    for topic in topics:
        if is_path(template):
            table = same = template.replace(PLACE_OF_TOPIC, topic)
        else:
            table = template.replace(PLACE_OF_TOPIC, _NO_NAME.sub("_", topic))
            same = table.lower()
        other = owners.setdefault(same, topic)
        if other != topic:
            raise SameTableError(f"the topics {other!r} and {topic!r} would both be written into {table}")
        tables[topic] = table
    return tables


def is_path(table: str) -> bool:
    return "/" in table
