"""Loads the job that an entry point ``module:Class`` in the jobs topic names. This is the trust boundary.

Anyone who may write to the jobs topic chooses what a worker imports. So a worker imports only from the prefixes in its
settings, and accepts only a :class:`~airflow_provider.spark.job.SparkJob`.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable
from typing import Final

from airflow_provider.spark.job import SparkJob
from airflow_provider.spark.raised import Naming

_MOST_SHOWN: Final = 100
_NAME: Final = r"[^\W\d]\w*"
_ENTRY_POINT: Final = re.compile(rf"(?P<module>{_NAME}(?:\.{_NAME})*):(?P<attribute>{_NAME}(?:\.{_NAME})*)")


class EntryPointError(Exception):
    """This worker can't or may not run this entry point; the message says what to do."""

    def __init__(self, entry_point: str, problem: str) -> None:
        shown = entry_point if len(entry_point) <= _MOST_SHOWN else f"{entry_point[:_MOST_SHOWN]}..."
        super().__init__(f"entry point {shown!r}: {problem}")
        self.entry_point = entry_point


class EntryPointNotAllowedError(EntryPointError):
    """The entry point is outside of what this worker may import. Nothing has been imported."""


class JobCodeError(EntryPointError):
    """The job's code was found here, but fails while it is imported or made: it will fail on the workers, too."""


def load_job(entry_point: str, allowed: Iterable[str]) -> SparkJob:
    """Make a new object of the job that ``entry_point`` names.

    :param entry_point: ``module:Class`` or ``module:function`` (a function decorated with ``@spark_job``)
    :param allowed: import prefixes; ``jobs`` admits ``jobs`` and ``jobs.x``, but not ``jobsevil``
    :raises EntryPointNotAllowedError: if no prefix admits the module
    :raises JobCodeError: if its code fails
    :raises EntryPointError: if it can't be imported, or is not a job
    """
    module_name, attribute = _parse(entry_point)
    check_allowed(entry_point, allowed)
    module = _import(entry_point, module_name)
    with _naming(entry_point, f"looking for {attribute} in module {module_name} failed with"):
        target = _attribute_of(entry_point, module, attribute)
        if isinstance(target, SparkJob):
            return target
        made_by = target if isinstance(target, type) and issubclass(target, SparkJob) else None
    if made_by is not None:
        with _naming(
            entry_point, f"{attribute}() failed with", hint="; a job's class must be callable without arguments"
        ):
            return made_by()
    hint = (
        "decorate it with @spark_job"
        if callable(target) and not isinstance(target, type)
        else "derive it from SparkJob"
    )
    raise EntryPointError(entry_point, f"{attribute} is not a SparkJob but a {type(target).__qualname__}; {hint}")


def check_allowed(entry_point: str, allowed: Iterable[str]) -> None:
    """Refuse an entry point outside the prefixes, without importing anything.

    :raises EntryPointNotAllowedError: if no prefix admits its module
    :raises EntryPointError: if it is not of the form ``module:name``
    """
    module_name, _ = _parse(entry_point)
    prefixes = sorted(set(allowed))
    if not any(module_name == prefix or module_name.startswith(f"{prefix}.") for prefix in prefixes if prefix):
        raise EntryPointNotAllowedError(
            entry_point,
            f"module {module_name} is not allowed here; this worker imports jobs from"
            f" {', '.join(prefixes) or 'nowhere'}: move the job there, or allow its package on the workers",
        )


def _parse(entry_point: str) -> tuple[str, str]:
    match = _ENTRY_POINT.fullmatch(entry_point)
    if match is None:
        raise EntryPointError(entry_point, "is not of the form module:Class or module:function")
    return match["module"], match["attribute"]


def _naming(entry_point: str, what: str, *passing: type[Exception], hint: str = "") -> Naming:
    """:raises JobCodeError: in its context, if the job's code fails"""
    return Naming(lambda said: JobCodeError(entry_point, f"{what} {said}{hint}"), EntryPointError, *passing)


def _import(entry_point: str, module_name: str) -> object:
    try:
        with _naming(entry_point, f"importing module {module_name} failed with", ModuleNotFoundError):
            return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if module_name == missing or module_name.startswith(f"{missing}."):
            problem = f"there is no module {missing} on this worker; install it or put its folder on PYTHONPATH"
        else:
            problem = f"module {module_name} needs the module {missing}, which this worker does not have"
        raise EntryPointError(entry_point, problem) from error


def _attribute_of(entry_point: str, module: object, attribute: str) -> object:
    """The attribute of the module, or of a class in it. Nothing else is followed.

    A module also contains what it has imported: with ``jobs:library.Job`` one could reach any module that an allowed
    one imports.
    """
    target = module
    for name in attribute.split("."):
        if target is not module and not isinstance(target, type):
            raise EntryPointError(
                entry_point, f"{attribute} leads through a {type(target).__qualname__}; only classes may contain jobs"
            )
        if name.startswith("__"):
            raise EntryPointError(entry_point, f"{name} is Python's own name, and none of a job")
        if not hasattr(target, name):
            owner = getattr(target, "__qualname__", None) or getattr(target, "__name__", "?")
            raise EntryPointError(
                entry_point, f"{owner} has no attribute {name}; check its spelling and the version on this worker"
            )
        target = getattr(target, name)
    return target
