"""Finds records of a batch that need not be parsed, because a later one in it replaces them. Pure.

A topic that is read from its beginning still has records that were not compacted yet: in a busy group each task's start
beside its end, and dozens of rounds, each with all tasks. To parse them would take seconds.

The decision uses the bytes as this package writes them, with sorted keys. Within a string, each quotation mark has a
backslash, so the patterns can't match there. A record in any other form is parsed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from airflow_provider.state.records import GROUP_KEY, KeyKind

if TYPE_CHECKING:
    from airflow_provider.kafka.topics.reader import Record

_ROUND: Final = re.compile(
    rb'"deadline_ms":[0-9]+,"delay_ms":[0-9]+,"epoch":([0-9]{1,18}),"generation":[0-9]+,"leader":"'
)
_PLAIN: Final = rb'(?:"[a-z_]+":(?:[a-z]+|[0-9]+|"[^"\\]*"),)*'
"""Fields whose values are neither objects nor lists."""
_TASK_BEGIN: Final = re.compile(rb'\{%b"attempt":([0-9]{1,18}),%b"epoch":([0-9]{1,18}),' % (_PLAIN, _PLAIN))
_TASK_END: Final = re.compile(
    rb'"run_key":"([^"\\]*)",%b"state":"([a-z]+)",%b"task":\[[^\[\]]*\],%b"v":1,"worker":"[A-Za-z0-9._-]+"\}\Z'
    % (_PLAIN, _PLAIN, _PLAIN)
)
_LIVES_ON: Final = re.compile(rb'"after":|"handle":(?!null)')
_LONGEST_END: Final = 1_000
_GROUP: Final = GROUP_KEY.encode()
_TASK: Final = f"{KeyKind.TASK.value}:".encode()
_ENDS: Final = (b"finished", b"failed")
_STEPS: Final = (b"pending", b"running", b"stopped")


class _Word(NamedTuple):
    """A record about a task, and its place in the batch."""

    run_key: bytes
    epoch: int
    attempt: int
    place: int


def superseded(records: Sequence[Record]) -> dict[int, int]:
    """The records that may be skipped: the place of each, and the place of the record that replaces it, which must be
    readable.

    - A round before one of a later epoch.
    - A step of a task, before the end of the same or a later attempt in the same or a later epoch. Both must be of the
      same run, because the order of records decides between runs. This does not hold for a task that may live on
      without its worker: the writer of the end may not have known everything that runs.

    :param records: in their order in the topic
    """
    words = Counter(record.key for record in records)
    if len(words) == len(records):
        return {}
    of_tasks = [record for record in records if record.key and words[record.key] > 1 and record.key.startswith(_TASK)]
    living = {record.key for record in of_tasks if record.value and _LIVES_ON.search(record.value)}
    skipped: dict[int, int] = {}
    ends: dict[bytes, _Word] = {}
    last_round = last_place = -1
    for place in range(len(records) - 1, -1, -1):
        key, value = records[place].key, records[place].value
        if key is None:
            continue
        if value is None:
            ends.pop(key, None)
        elif key == _GROUP:
            epoch = _epoch_of_round(value)
            if epoch is not None and epoch > last_round:
                last_round, last_place = epoch, place
            elif epoch is not None and epoch < last_round:
                skipped[place] = last_place
        elif words[key] > 1 and key.startswith(_TASK) and key not in living:
            _check_task(key, value, place, ends, skipped)
    return skipped


def _check_task(key: bytes, value: bytes, place: int, ends: dict[bytes, _Word], skipped: dict[int, int]) -> None:
    """Note a record of a task as an end, or as skipped because of a later end."""
    tail = _TASK_END.search(value, max(0, len(value) - _LONGEST_END))
    begin = _TASK_BEGIN.match(value) if tail else None
    if tail is None or begin is None:
        return
    word, known = _Word(tail[1], int(begin[2]), int(begin[1]), place), ends.get(key)
    if tail[2] in _ENDS:
        ends.setdefault(key, word)
    elif tail[2] in _STEPS and known is not None and _replaces(known, word):
        skipped[place] = known.place


def _replaces(end: _Word, step: _Word) -> bool:
    return end.run_key == step.run_key and step.epoch <= end.epoch and step.attempt <= end.attempt


def _epoch_of_round(value: bytes) -> int | None:
    found = _ROUND.search(value)
    return int(found[1]) if found else None
