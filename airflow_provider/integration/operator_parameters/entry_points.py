"""The entry point of a job that a DAG file names by its class: a name under which workers can import it."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from airflow_provider.integration.operator_parameters.parameters import is_template
from airflow_provider.spark.job import FunctionJob, SparkJob
from airflow_provider.spark.raised import Naming

_OF_DAG_FILES: Final = "unusual_prefix_"
"""Airflow imports each DAG file under a name that begins with this and that nobody else can import."""


def entry_point_of(job: Any) -> Any:
    """``module:Class`` of a job's class, or of a function that is one. A text, and what is known only later, stays.

    :raises ValueError: if it is no job, or workers could not import it
    """
    if isinstance(job, str) or is_template(job):
        return job
    if not _is_job(job):
        raise ValueError(
            f"entry_point: {job!r} must be 'package.module:Class', a class derived from SparkJob, or a function"
            " decorated with @spark_job"
        )
    name = job.__qualname__
    if "<locals>" in name:
        raise ValueError(
            f"entry_point: {name} is defined inside of a function, where no worker finds it: define it at the top of a"
            " module"
        )
    _check_is_there(job, name)
    return f"{_module_of(name, job.__module__)}:{name}"


def _check_is_there(job: Any, name: str) -> None:
    """:raises ValueError: if its module has something else under its name, such as the function before a decorator"""
    module = sys.modules.get(job.__module__)
    if module is None:
        return
    with Naming(lambda said: ValueError(f"entry_point: looking for {name} in its module failed with {said}")):
        try:
            there = attrgetter(name)(module)
        except AttributeError:
            there = None
    if not _is_job(there):
        raise ValueError(
            f"entry_point: workers import {name}, but in {job.__module__} this is {there!r}: put the decorator above"
            " the function, and leave its name to the job"
        )


def _is_job(given: object) -> bool:
    return isinstance(given, FunctionJob) or (isinstance(given, type) and issubclass(given, SparkJob))


def _module_of(job: str, module: str) -> str:
    if module != "__main__" and not module.startswith(_OF_DAG_FILES):
        return module
    file = getattr(sys.modules.get(module), "__file__", None) or "nowhere"
    name = _importable_name(Path(file))
    if name is None:
        raise ValueError(
            f"entry_point: {job} is in the DAG file ({file}), which workers can't import: by its folder and name it is"
            " no module. Define the job in a module of its own, beside the DAG file or in an installed package, and"
            " import it into the DAG file"
        )
    return name


def _importable_name(file: Path) -> str | None:
    """The name by which ``import`` finds this file.

    The DAGs folder is on Python's path also where tasks run. A folder around it, such as that in which a process was
    started, need not be there, so the nearest folder counts.
    """
    for folder in sorted(sys.path, key=len, reverse=True):
        if file.is_relative_to(folder):
            parts = file.relative_to(folder).with_suffix("").parts
            name = ".".join(parts)
            if all(part.isidentifier() for part in parts) and _is_found(name, file):
                return name
    return None


def _is_found(name: str, file: Path) -> bool:
    with Naming(lambda said: ValueError(f"entry_point: importing the packages of {name} failed with {said}")):
        try:
            found = find_spec(name)
        except (ImportError, ValueError):  # a folder on the way is hidden by a module, or has been made by hand
            return False
    return found is not None and found.origin == str(file)
