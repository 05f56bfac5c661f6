"""Which records of a batch need not be parsed, because one that comes later in it says all that they could say. Pure.

Who begins to read a topic finds what compaction has not taken yet: of a busy group each task's start beside its
end, and dozens of rounds, each with all tasks in it. To parse them takes seconds.

What decides is read from the bytes as this package writes them, keys in their order: inside of a text no quotation mark
stands without a backslash, so the patterns can't match there. A record in any other form is parsed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from airflow_provider.records import GROUP_KEY, KeyKind

if TYPE_CHECKING:
    from airflow_provider.topics.reader import Record

_ROUND: Final = re.compile(
    rb'"deadline_ms":[0-9]+,"delay_ms":[0-9]+,"epoch":([0-9]{1,18}),"generation":[0-9]+,"leader":"'
)
_PLAIN: Final = rb'(?:"[a-z_]+":(?:[a-z]+|[0-9]+|"[^"\\]*"),)*'
"""Fields that are no objects and no lists."""
_TASK_BEGIN: Final = re.compile(rb'\{%b"attempt":([0-9]{1,18}),%b"epoch":([0-9]{1,18}),' % (_PLAIN, _PLAIN))
_TASK_END: Final = re.compile(
    rb'"run_key":"([^"\\]*)",%b"state":"([a-z]+)",%b"task":\[[^\[\]]*\],%b"v":1,"worker":"[A-Za-z0-9._-]+"\}\Z'
    % (_PLAIN, _PLAIN, _PLAIN)
)
_OF_WHAT_LIVES_ON: Final = re.compile(rb'"after":|"handle":(?!null)')
_LONGEST_END: Final = 1_000
_GROUP: Final = GROUP_KEY.encode()
_TASK: Final = f"{KeyKind.TASK.value}:".encode()
_ENDS: Final = (b"finished", b"failed")
_STEPS: Final = (b"pending", b"running", b"stopped")


class _Word(NamedTuple):
    """What is said of a task, and at which place."""

    run_key: bytes
    epoch: int
    attempt: int
    place: int


def superseded(records: Sequence[Record]) -> dict[int, int]:
    """Which records may be skipped: the place of each, and of the one that stands for it, if that can be read.

    - A round before one of a later epoch.
    - A step of a task before the end of the same attempt, or a later one, in the same epoch, or a later one. Both of
      one run: of words about several runs their order decides which one stands. Of a task that may live on without its
      worker every word counts: who wrote the end may not have known of all that runs.

    :param records: as they follow each other
    """
    words = Counter(record.key for record in records)
    if len(words) == len(records):
        return {}
    of_tasks = [record for record in records if record.key and words[record.key] > 1 and record.key.startswith(_TASK)]
    living = {record.key for record in of_tasks if record.value and _OF_WHAT_LIVES_ON.search(record.value)}
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
            _look_at_task(key, value, place, ends, skipped)
    return skipped


def _look_at_task(key: bytes, value: bytes, place: int, ends: dict[bytes, _Word], skipped: dict[int, int]) -> None:
    tail = _TASK_END.search(value, max(0, len(value) - _LONGEST_END))
    begin = _TASK_BEGIN.match(value) if tail else None
    if tail is None or begin is None:
        return
    word, known = _Word(tail[1], int(begin[2]), int(begin[1]), place), ends.get(key)
    if tail[2] in _ENDS:
        ends.setdefault(key, word)
    elif tail[2] in _STEPS and known is not None and _says_as_well(known, word):
        skipped[place] = known.place


def _says_as_well(end: _Word, step: _Word) -> bool:
    return end.run_key == step.run_key and step.epoch <= end.epoch and step.attempt <= end.attempt


def _epoch_of_round(value: bytes) -> int | None:
    found = _ROUND.search(value)
    return int(found[1]) if found else None
