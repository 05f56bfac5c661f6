"""Decides which applications a worker lets tasks submit to Spark. This is a trust boundary, as for entry points.

An application may do whatever its user may, and whoever may write to the jobs topic names it. So a worker submits only
what lies where it allows, with packages and to masters that it allows. Settings that name code, file systems or
programs can't come from a topic at all: they belong in a properties file, which lies in an allowed folder, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from airflow_provider.spark.job.session_conf import AllowedConf

_PLACE: Final = re.compile(r"(?P<root>[A-Za-z][\w+.-]*://[\w.:@-]*)?(?P<path>/[\w ./:@+=~-]*)")
"""Without what Spark and Hadoop would read as a list, a pattern or an escape."""
_LIKE_A_PLACE: Final = re.compile(r"/|[A-Za-z][\w+.-]*://")
_MASTER: Final = re.compile(r"yarn|spark://[^/]+|k8s://.+")
_COORDINATES: Final = re.compile(r"[\w.-]+(?::[\w.-]+){2}")
_PATTERN: Final = re.compile(r"[\w.*-]+(?::[\w.*-]+){2}")
_CLASSES: Final = re.compile(r"[A-Za-z_$][\w$]*(?:\.[\w$*]+)+")
_VALUE: Final = re.compile(r"[\w .:,+*%/@-]*")
"""Of a setting: without what Spark replaces by other settings, or by variables of the environment."""
_LOCAL: Final = re.compile(r"local(?:\[[\d*]+(?:,\d+)?\])?")
_CONF: Final = AllowedConf(
    (
        "spark.driver.cores",
        "spark.driver.maxResultSize",
        "spark.driver.memory",
        "spark.driver.memoryOverhead",
        "spark.executor.cores",
        "spark.executor.instances",
        "spark.executor.memory",
        "spark.executor.memoryOverhead",
        "spark.cores.max",
        "spark.default.parallelism",
        "spark.dynamicAllocation.*",
        "spark.kubernetes.driver.limit.cores",
        "spark.kubernetes.driver.request.cores",
        "spark.kubernetes.executor.limit.cores",
        "spark.kubernetes.executor.request.cores",
        "spark.locality.wait",
        "spark.log.level",
        "spark.network.timeout",
        "spark.scheduler.mode",
        "spark.task.cpus",
        "spark.task.maxFailures",
        "spark.ui.enabled",
        "spark.yarn.queue",
    )
)
"""Besides what a job may set for a session: how large an application is."""


class ApplicationNotAllowedError(Exception):
    """A worker does not submit such an application. Another try does not help, as all its workers should be equal."""

    def __init__(self, field: str, what: str, how: str) -> None:
        super().__init__(f"{field}: this worker does not allow {what}: {how}")


@dataclass(frozen=True, slots=True)
class AllowedApplications:
    """Of what the applications may be made that a worker submits.

    :param parts: absolute folders, and URLs of folders (``s3a://lake/apps``), with all that is in them; masters other
        than ``local``; Maven coordinates; and main classes. In the last two, ``*`` stands for any text
    :param time_zone: of the sessions of those that have none of their own: that of the worker's tasks. Empty: unknown
    :param detach: whether a driver on a cluster is left to whoever watches it, when nothing else is left to be done
    :raises ValueError: naming a part that is none of these
    """

    parts: tuple[str, ...] = ()
    time_zone: str = ""
    detach: bool = False

    def __post_init__(self) -> None:
        for part in self.parts:
            if _MASTER.fullmatch(part) or _PATTERN.fullmatch(part) or _CLASSES.fullmatch(part):
                continue
            if not _LIKE_A_PLACE.match(part) or _steps(f"{part}/") is None:
                raise ValueError(
                    f"{part!r} is neither an absolute folder, nor a URL of one, a Spark master, a main class, or Maven"
                    " coordinates such as 'org.apache.iceberg:*:1.10.1'"
                )

    @property
    def kubernetes_masters(self) -> tuple[str, ...]:
        return tuple(part for part in self.parts if part.startswith("k8s://"))

    def check_place(self, field: str, place: str) -> None:
        """:raises ApplicationNotAllowedError: if this file, or folder, lies in none of the folders"""
        steps = _steps(place)
        if steps is None:
            raise ApplicationNotAllowedError(
                field, repr(place), "it is no absolute path or URL, or has steps upwards, commas, patterns or escapes"
            )
        folders = [folder for part in self.parts if (folder := _folder(part)) is not None]
        if not any(steps[: len(folder)] == folder for folder in folders):
            raise ApplicationNotAllowedError(field, repr(place), _how("its folder"))

    def check_package(self, field: str, coordinates: str) -> None:
        """:raises ApplicationNotAllowedError: if no part has these Maven coordinates"""
        if not _COORDINATES.fullmatch(coordinates):
            raise ApplicationNotAllowedError(field, repr(coordinates), "it must be group:artifact:version")
        if not any(_PATTERN.fullmatch(part) and fnmatchcase(coordinates, part) for part in self.parts):
            raise ApplicationNotAllowedError(field, repr(coordinates), _how("it"))

    def check_class(self, field: str, name: str) -> None:
        """A class need not be of the application's jar: many of Spark's own run whatever their arguments say.

        :raises ApplicationNotAllowedError: if no part names it
        """
        if not any(_CLASSES.fullmatch(part) and fnmatchcase(name, part) for part in self.parts):
            raise ApplicationNotAllowedError(field, repr(name), _how("it"))

    def check_master(self, field: str, master: str) -> None:
        """:raises ApplicationNotAllowedError: if it is not on this machine, and no part names it"""
        if not _LOCAL.fullmatch(master) and not (_MASTER.fullmatch(master) and master in self.parts):
            raise ApplicationNotAllowedError(field, repr(master), _how("it"))

    def check_conf(self, field: str, conf: Mapping[str, object]) -> None:
        """:raises ApplicationNotAllowedError: naming the settings that must not come from a topic"""
        unsafe = [name for name, value in conf.items() if not _VALUE.fullmatch(str(value))]
        if refused := [*dict.fromkeys([*_CONF.refused(conf), *unsafe])]:
            raise ApplicationNotAllowedError(
                field, ", ".join(map(repr, refused)), "write it into a properties_file in an allowed folder"
            )


NO_APPLICATIONS: Final = AllowedApplications()


def _how(what: str) -> str:
    return f"add {what} to the workers' allowed_applications (--allow-application)"


def _folder(part: str) -> tuple[str, ...] | None:
    """None: it is something else."""
    return None if _MASTER.fullmatch(part) or not _LIKE_A_PLACE.match(part) else _steps(f"{part}/")


def _steps(place: str) -> tuple[str, ...] | None:
    """The host, and the steps of the path from there; None: they may not be what they look like."""
    found = _PLACE.fullmatch(place)
    if found is None:
        return None
    steps = [step for step in found["path"].split("/") if step not in ("", ".")]
    if found["path"].startswith("//") or any(step == ".." or step != step.strip() for step in steps):
        return None  # Java reads "//" as the begin of a host, and Spark strips what is in lists
    return found["root"] or "", *steps
