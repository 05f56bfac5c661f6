"""Checks the parameters of operators and sensors: when the DAG is parsed, or, for templates, when the task runs.

Every refusal is a :class:`ValueError` that begins with the parameter's name.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from enum import Enum
from typing import Any, Final, TypeVar

from airflow_provider.spark.connect.server import AllowedServers
from airflow_provider.spark.job.allowed_applications import AllowedApplications
from airflow_provider.spark.job.checkpoint_folder import usable_root
from airflow_provider.spark.job.session_conf import AllowedConf
from airflow_provider.spark.masters import usable_master
from airflow_provider.state.records.jobs_topic.checks import JobError, check_job_name
from airflow_provider.state.records.jobs_topic.slots import MOST_SLOTS
from airflow_provider.state.views.slots.scaling import Goal, ScaleError, all_but, count, share
from airflow_provider.values.model import PLANNER_INDEX

TimeSpan = timedelta | float
"""A timedelta, or seconds."""

_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST_GROUP: Final = 249 - len(".status")
_LONGEST_WORKER: Final = 249

E = TypeVar("E", bound=Enum)
Given = TypeVar("Given")
Checked = TypeVar("Checked")


def is_template(value: object) -> bool:
    """Whether the value is known only when the task runs: a Jinja template, or another task's output."""
    if isinstance(value, str):
        return "{{" in value or "{%" in value
    if isinstance(value, Mapping):
        return any(is_template(item) for pair in value.items() for item in pair)
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(is_template(item) for item in value)
    return hasattr(value, "resolve") and not isinstance(value, type)


def milliseconds(parameter: str, value: object, *, least_ms: int = 0) -> int:
    """Convert a timedelta, or seconds, into whole milliseconds.

    :raises ValueError: for anything else, or if it is shorter than ``least_ms``
    """
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = as_float(value)
    else:
        raise ValueError(f"{parameter}: {value!r} must be a timedelta or a number of seconds")
    if not least_ms / 1000 <= seconds < 10**9:
        raise ValueError(f"{parameter}: {value!r} must be at least {least_ms / 1000:g} s")
    return round(seconds * 1000)


def whole_number(parameter: str, value: object, *, least: int | None = None) -> int:
    """Check a whole number, or (from a template) its digits.

    :raises ValueError: for anything else, or if it is less than ``least``
    """
    if isinstance(value, str) and re.fullmatch(r"\s*-?[0-9]{1,18}\s*", value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or (least is not None and value < least):
        at_least = "" if least is None else f", at least {least}"
        raise ValueError(f"{parameter}: {value!r} must be a whole number{at_least}")
    return value


def number_of_slots(value: object) -> int:
    """Check the number of a worker's slots.

    :raises ValueError: if it is none, or there are too many
    """
    number = whole_number("slots", value, least=1)
    if number > MOST_SLOTS:
        raise ValueError(f"slots: {number}, but a worker has at most {MOST_SLOTS}")
    return number


def choice(parameter: str, value: object, kind: type[E]) -> E:
    """Convert a value into the member of ``kind`` that has it.

    :raises ValueError: if there is none
    """
    try:
        return kind(value)
    except ValueError:
        raise ValueError(f"{parameter}: {value!r} must be one of {', '.join(str(one.value) for one in kind)}") from None


def usable(parameter: str, check: Callable[[Given], Checked], value: Given) -> Checked:
    """What ``check`` makes of a value.

    :raises ValueError: naming the parameter, if this value can't be used
    """
    try:
        return check(value)
    except ValueError as wrong:
        raise ValueError(f"{parameter}: {wrong}") from None


def spark_master(value: object) -> str:
    """Check a master URL of Spark, or that of a Spark Connect server.

    :raises ValueError: for anything else, without what may be secret in it
    """
    return usable("spark_master", usable_master, text("spark_master", value))


def checkpoint_root(value: object) -> str | None:
    """Check the folder of streaming checkpoints; None: there is none.

    :raises ValueError: for anything else
    """
    return usable("checkpoint_root", usable_root, text("checkpoint_root", value)) if value else None


def as_float(number: float) -> float:
    """A whole number may be larger than any float: it then counts as infinite."""
    return float(number) if abs(number) < sys.float_info.max else math.inf * (1 if number > 0 else -1)


def native_text(value: object) -> object:
    """Convert a number into text: where templates are rendered as native objects, ``{{ ds_nodash }}`` is a number."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def group_name(value: object) -> str:
    """Check the name of a group, which becomes part of topics' names.

    :raises ValueError: if Kafka can't carry it
    """
    return _kafka_name("group", value, _LONGEST_GROUP)


def worker_name(value: object) -> str:
    """Check the name of a worker, which is its group instance id.

    :raises ValueError: if Kafka can't carry it
    """
    return _kafka_name("worker", value, _LONGEST_WORKER)


def spelled_as_name(text: str, *, longest: int = _LONGEST_WORKER) -> str:
    """A name made of any text: that text if it is one, else as near as can be, with a digest of the text.

    The same text always makes the same name, and two texts make two.

    :param longest: how many characters it may have; by default as many as a worker's name
    """
    if _NAME.fullmatch(text) and len(text) <= longest and text not in (".", ".."):
        return text
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:12]
    return f"{_NOT_IN_A_NAME.sub('_', text)[: longest - len(digest) - 1]}-{digest}"


def job_name(value: object) -> str:
    """Check the name of a job, which becomes part of keys and paths.

    :raises ValueError: if they can't carry it
    """
    try:
        return check_job_name(native_text(value))
    except JobError as wrong:
        raise ValueError(f"job: {value!r}: {wrong.advice}") from wrong


def _kafka_name(parameter: str, value: object, longest: int) -> str:
    value = native_text(value)
    if not isinstance(value, str) or not _NAME.fullmatch(value) or len(value) > longest or value in (".", ".."):
        raise ValueError(
            f"{parameter}: {value!r} must be 1 to {longest} letters (a-z, A-Z), digits, '.', '_' or '-', and not '.' or"
            " '..': it is part of names in Kafka"
        )
    return value


def scale_goal(*, to: object = None, workers: object = None, without: object = None) -> Goal:
    """Make the goal of a scale-down from exactly one of the three parameters.

    :raises ValueError: for anything else
    """
    given = {"to": to, "workers": workers, "without": without}
    parameter, *others = [name for name, value in given.items() if value is not None] or ["", ""]
    if others:
        raise ValueError("to, workers, without: give one of them: '80%', a number of workers, or the names of some")
    try:
        if parameter == "to":
            return share(text("to", to))
        if parameter == "workers":
            return count(whole_number("workers", workers, least=0))
        names = [without] if isinstance(without, str) else without
        if not isinstance(names, (list, tuple, set, frozenset)):
            raise ValueError(f"without: {without!r} must be a list of workers' names")
        return all_but(worker_name(name) for name in names)
    except ScaleError as wrong:
        raise ValueError(f"{parameter}: {wrong}") from wrong


def prefixes(parameter: str, value: object) -> tuple[str, ...]:
    """Check import prefixes: a list, or (from a template) one text with commas.

    :raises ValueError: for anything else, if there are none, or one is not the name of a module
    """
    checked = _several(value)
    if not checked:
        raise ValueError(f"{parameter}: {value!r} must name the packages or modules that this worker may run jobs from")
    for prefix in checked:
        if not isinstance(prefix, str) or not all(part.isidentifier() for part in prefix.split(".")):
            raise ValueError(f"{parameter}: {prefix!r} is not the name of a package or module")
    return checked


def allowed_conf(value: object) -> AllowedConf:
    """Check patterns of settings that a worker allows.

    :raises ValueError: for anything else
    """
    return _allowed("allowed_session_conf", AllowedConf, value, "patterns, such as 'spark.sql.iceberg.*'")


def allowed_applications(value: object) -> AllowedApplications:
    """Check what applications may be made of.

    :raises ValueError: for anything else
    """
    return _allowed("allowed_applications", AllowedApplications, value, "folders, such as '/opt/applications'")


def allowed_servers(value: object) -> AllowedServers:
    """Check URLs of Spark Connect servers.

    :raises ValueError: for anything else
    """
    return _allowed("allowed_spark_servers", AllowedServers.of, value, "URLs, such as 'sc://host:15002'")


def _allowed(parameter: str, check: Callable[[tuple[str, ...]], Checked], value: object, what: str) -> Checked:
    """:param value: a list, or (from a template) one text with commas"""
    parts = _several(value)
    if parts is None or not all(isinstance(part, str) for part in parts):
        raise ValueError(f"{parameter}: {value!r} must be a list of {what}")
    return usable(parameter, check, parts)


def _several(value: object) -> tuple[Any, ...] | None:
    """The values of a list, or of one text with commas; None: it is neither."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return tuple(value) if isinstance(value, (list, tuple, set, frozenset)) else None


def text(parameter: str, value: object) -> str:
    """Check a text that isn't empty.

    :raises ValueError: for anything else
    """
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{parameter}: {value!r} must be a text that is not empty")
    return value


def json_map(parameter: str, value: object) -> Mapping[Any, Any]:
    """Check a map, or (from a template) the JSON text of one.

    :raises ValueError: for anything else
    """
    given = value
    if isinstance(value, str):
        try:
            given = json.loads(value)
        except (ValueError, RecursionError):
            raise ValueError(
                f"{parameter}: is a text, and not the JSON of an object. A template makes text of what it is given, as"
                " Python writes it: end it with | tojson, or give the whole output of another task, as in"
                f" {parameter}=prepare.output"
            ) from None
    if not isinstance(given, Mapping):
        raise ValueError(f"{parameter}: must be an object of names and values, not {type(given).__name__}")
    return {name: list(item) if _is_read_one_by_one(item) else item for name, item in given.items()}


def _is_read_one_by_one(value: object) -> bool:
    """Whether it is what a mapped task returns: Airflow reads each item when it is asked for."""
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray, list, tuple))


def text_mapping(parameter: str, value: object) -> dict[str, str]:
    """Check settings by name; numbers and booleans are converted to texts as Spark reads them.

    :raises ValueError: for anything else
    """
    settings: dict[str, str] = {}
    for name, setting in json_map(parameter, value).items():
        if not isinstance(name, str) or not isinstance(setting, (str, int, float)):
            raise ValueError(f"{parameter}: {name!r}: {setting!r} must be a text, a number or a boolean under a name")
        settings[name] = str(setting).lower() if isinstance(setting, bool) else str(setting)
    return settings


def text_changes(parameter: str, value: object) -> dict[str, str | None]:
    """As :func:`text_mapping`; None is kept, and removes the setting of that name.

    :raises ValueError: for anything else
    """
    changes = json_map(parameter, value)
    given = text_mapping(parameter, {name: setting for name, setting in changes.items() if setting is not None})
    return {**given, **{name: None for name in changes if name not in given}}


def task_indexes(name: str, tasks: object) -> list[int] | None:
    """Check indexes of a job's tasks, -1 for its planner; None: all.

    :raises ValueError: for anything but a list of indexes
    """
    if tasks is None:
        return None
    if isinstance(tasks, str) or not isinstance(tasks, Sequence):
        raise ValueError(f"{name}: give a list of indexes, such as [0, 3], not {tasks!r}")
    return [whole_number(name, index, least=PLANNER_INDEX) for index in tasks]
