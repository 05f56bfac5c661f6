"""What a job of Spark applications declares, and the applications that this makes. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import PurePosixPath
from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import Meta

from airflow_provider.spark.job.planning import PlanError

Text: TypeAlias = str | int | float

_CLASS: Final = re.compile(r"[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*")
_CODE: Final = (".py", ".jar")
_NAME: Final = re.compile(r"[\w .()-]{1,200}")
"""It stands in lines of logs."""
_CLUSTERS: Final = re.compile(r"(yarn)|k8s://.+")
"""Masters that run drivers: YARN, or Kubernetes."""
_SHELL: Final = re.compile(r"[`\\]|\{\{|\}\}|<CPS>")
"""YARN starts a driver by a shell, and neither Spark nor YARN escapes these."""
_VARIABLES: Final = re.compile(r"\$[$(]")
"""Kubernetes replaces ``$(NAME)`` by variables, and ``$$`` by ``$``, and Spark does not escape them."""
_WITH_ALIAS: Final = ("files", "archives")
_ALIAS: Final = re.compile(r"#(?!\.+$)[\w.-]+$")
"""The name by which an application finds a file."""
_PLACES: Final[Mapping[str, str]] = {
    "py_files": "spark.submit.pyFiles",
    "jars": "spark.jars",
    "files": "spark.files",
    "archives": "spark.archives",
}
_LISTS: Final[Mapping[str, str]] = {**_PLACES, "packages": "spark.jars.packages"}
"""Spark's settings for them."""


@dataclass
class CommonConfig:
    """What an application has, or all of them."""

    application: Annotated[
        str,
        Meta(description="a Python file or a jar: an absolute path that all workers have, or a URL that Spark reads"),
    ] = ""
    args: Annotated[
        list[Text], Meta(description="its arguments. Anybody on a worker's machine can read them: no secrets")
    ] = field(default_factory=list)
    main_class: Annotated[
        str, Meta(description="of a jar; empty: as its manifest says. Workers allow classes by name")
    ] = ""
    conf: Annotated[
        dict[str, Text | bool],
        Meta(description="settings of Spark that say how large it is: spark.executor.memory, …"),
    ] = field(default_factory=dict)
    properties_file: Annotated[
        str, Meta(pattern="^(/|$)", description="a file of the workers with any other settings of Spark")
    ] = ""
    py_files: Annotated[list[str], Meta(description="Python files, zips and wheels to import from")] = field(
        default_factory=list
    )
    jars: Annotated[list[str], Meta(description="for the class path")] = field(default_factory=list)
    files: Annotated[list[str], Meta(description="for its working directories")] = field(default_factory=list)
    archives: Annotated[list[str], Meta(description="to be unpacked there: env.tar.gz#env")] = field(
        default_factory=list
    )
    packages: Annotated[list[str], Meta(description="Maven packages: group:artifact:version")] = field(
        default_factory=list
    )
    master: Annotated[
        str,
        Meta(description="local[2], spark://host:7077, yarn, k8s://…; empty: as the worker's spark-defaults.conf says"),
    ] = ""
    deploy_mode: Annotated[
        Literal["client", "cluster"],
        Meta(description="where the driver runs: as a child of the worker, or on the cluster (YARN or Kubernetes)"),
    ] = "client"
    spark_home: Annotated[
        str, Meta(pattern="^(/|$)", description="the folder of a Spark 4; empty: that of the worker's PySpark")
    ] = ""


@dataclass
class ApplicationConfig(CommonConfig):
    """One of several applications."""

    name: Annotated[str, Meta(description="empty: that of its file, without its suffix")] = ""
    after: Annotated[list[str], Meta(description="names of others that run before it")] = field(default_factory=list)


@dataclass
class SparkApplicationsConfig(CommonConfig):
    """What to submit."""

    applications: Annotated[
        list[ApplicationConfig],
        Meta(
            description="several, each with its own values of these fields, a name, and after: names of others that run"
            " before it; what it does not have, it has from here. Empty: one application"
        ),
    ] = field(default_factory=list)


def applications_of(job: str, config: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The applications by their names, each with all that it has.

    :raises PlanError: if one can't be submitted
    """
    common = {name: value for name, value in config.items() if name != "applications"}
    known = {each.name for each in fields(ApplicationConfig)}
    found: dict[str, dict[str, Any]] = {}
    for index, own in enumerate(config.get("applications") or [{}]):
        where = f"applications[{index}]" if config.get("applications") else "it"
        if unknown := sorted(own.keys() - known):
            raise PlanError(job, f"can't be made: {where} has {', '.join(map(repr, unknown))}, which is no field of it")
        merged = {**common, **own, "conf": {**common.get("conf", {}), **own.get("conf", {})}}
        name = merged["name"] = own.get("name") or PurePosixPath(merged.get("application", "")).stem
        if wrong := what_is_wrong(merged):
            raise PlanError(job, f"can't be made: {where} {wrong}")
        if name in found:
            raise PlanError(job, f"can't be made: two applications are called {name!r}: give each a name")
        found[name] = merged
    return found


def what_is_wrong(merged: Mapping[str, Any]) -> str:
    """What makes it impossible to submit it; empty: nothing. A worker asks again: a task's config need not be from a
    plan, for it is in a topic.
    """
    application, main_class = merged.get("application", ""), merged.get("main_class", "")
    if not application.endswith(_CODE):
        return f"has as its application {application!r}, which is neither a *.py nor a *.jar"
    if main_class and not (application.endswith(".jar") and _CLASS.fullmatch(main_class)):
        return f"has the main_class {main_class!r}, which is none of a jar"
    if is_detached(merged) and (wrong := _what_no_cluster_takes(merged)):
        return wrong
    if not _NAME.fullmatch(merged.get("name", "")):
        return f"has the name {merged.get('name', '')!r}: it must be of letters, digits, spaces and ()_.-, 200 at most"
    if relative := [name for name in ("properties_file", "spark_home") if merged.get(name, "/")[:1] not in ("", "/")]:
        return f"has a {relative[0]} that is no absolute path"
    return ""


def _what_no_cluster_takes(merged: Mapping[str, Any]) -> str:
    cluster = _CLUSTERS.fullmatch(merged.get("master", ""))
    if not cluster:
        return "has the deploy_mode 'cluster', for which its master must be 'yarn' or 'k8s://https://host:port'"
    reader, unsafe = ("a shell", _SHELL) if cluster[1] else ("Kubernetes", _VARIABLES)
    if read := [each for each in arguments_of(merged) if unsafe.search(each)]:
        return f"has the argument {read[0]!r}, which {reader} would read otherwise on the cluster"
    return ""


def is_detached(config: Mapping[str, Any]) -> bool:
    """Whether its driver goes on without the worker."""
    return bool(config.get("deploy_mode") == "cluster")


def settings_of(config: Mapping[str, Any]) -> dict[str, str]:
    """All that Spark is told about it, but its file, its arguments, its class and its file of properties."""
    settings = {name: _text(value) for name, value in config.get("conf", {}).items()}
    settings["spark.app.name"] = config["name"]
    settings["spark.submit.deployMode"] = "cluster" if is_detached(config) else "client"
    if master := config.get("master"):
        settings["spark.master"] = master
    return settings | {setting: ",".join(config[name]) for name, setting in _LISTS.items() if config.get(name)}


def arguments_of(config: Mapping[str, Any]) -> list[str]:
    return [_text(value) for value in config.get("args", ())]


def places_of(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """All files and folders that it names, each with its field."""
    others = [(name, config[name]) for name in ("properties_file", "spark_home") if config.get(name)]
    lists = [(name, place) for name in _PLACES for place in config.get(name, ())]
    return [
        ("application", config.get("application", "")),
        *others,
        *[(name, _ALIAS.sub("", place) if name in _WITH_ALIAS else place) for name, place in lists],
    ]


def _text(value: Text | bool) -> str:
    """As Spark reads it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
