"""Which topics a cluster has, and what their tables are called."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

_ASK_S: Final = 30.0
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_]")
PLACE_OF_TOPIC: Final = "{topic}"


class ClusterError(Exception):
    """No broker says which topics there are."""


class SameTableError(ValueError):
    """Two topics would be written into one table."""


def topics_like(pattern: str, bootstrap_servers: str, config_file: str) -> list[str]:
    """Names of topics that the whole pattern matches, in order. Internal topics (``__…``) are left out.

    :param pattern: a regular expression of Python
    :param config_file: librdkafka's configuration as a JSON object, for TLS and SASL; empty: none is needed
    :raises ClusterError: if no broker answers
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    config: dict[str, Any] = json.loads(Path(config_file).read_text()) if config_file else {}
    # What a client logs is in the error, too.
    quiet: dict[str, Any] = {"log_level": 0, "logger": logging.getLogger(__name__)}
    client = AdminClient({**config, "bootstrap.servers": bootstrap_servers, **quiet})
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
