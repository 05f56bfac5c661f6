"""What Kubernetes says about a driver's pod, in the words of :mod:`~airflow_provider.spark.submit.detached`. Pure.

The fields are those of the API's ``Pod`` v1 (Kubernetes 1.37). Since 1.27 a deleted pod gets a last phase, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from airflow_provider.spark.submit.detached import Driver, DriverState

_CONTAINER: Final = "spark-kubernetes-driver"
"""Spark calls the driver's container so, unless a template of the pod does not."""
_CONF_VOLUME: Final = "spark-conf-volume-driver"
_STARTS: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Why containers wait that start as they should."""
_PHASES: Final[Mapping[str, DriverState]] = {"Succeeded": DriverState.SUCCEEDED, "Failed": DriverState.FAILED}
_TELLING: Final[Mapping[str, str]] = {"PodScheduled": "False", "DisruptionTarget": "True"}
"""Conditions, with the status that says what is wrong: no node has room; it is evicted, or its node is lost."""
_LONGEST_WHY: Final = 1_000


def driver_of(pod: Mapping[str, Any]) -> Driver:
    """The driver that is this pod. Its id is that of ``spark-submit``: ``namespace:name``.

    A pod that is being deleted runs until it is gone, or Kubernetes says that it has ended: if its node is lost, nobody
    knows more.

    :raises KeyError, TypeError, ValueError: if this is no pod
    """
    metadata, status = pod["metadata"], pod.get("status") or {}
    state = _state(status)
    if state is DriverState.FAILED and "deletionTimestamp" in metadata:
        state = DriverState.KILLED
    told = [] if state is DriverState.SUCCEEDED else dict.fromkeys(_told(metadata, status))
    return Driver(
        id=f"{metadata['namespace']}:{metadata['name']}",
        state=state,
        submitted_ms=_ms(metadata["creationTimestamp"]),
        why=" ".join("; ".join(told).split())[:_LONGEST_WHY],
    )


def conf_map_of(pod: Mapping[str, Any]) -> str:
    """The name of the config map without which a driver that has not started can't start; empty: there is none.

    ``spark-submit`` makes the pod, and after it this config map.
    """
    if (pod.get("status") or {}).get("phase") != "Pending":
        return ""
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    return str((volumes.get(_CONF_VOLUME, {}).get("configMap") or {}).get("name", ""))


def _state(status: Mapping[str, Any]) -> DriverState:
    """That of the driver's container counts first: a sidecar may outlive it, or fail after it has succeeded."""
    containers = {each["name"]: each for each in status.get("containerStatuses") or ()}
    driver = next(iter(containers.values())) if len(containers) == 1 else containers.get(_CONTAINER, {})
    ended = (driver.get("state") or {}).get("terminated")
    if ended:
        return DriverState.FAILED if ended["exitCode"] else DriverState.SUCCEEDED
    return _PHASES.get(status.get("phase", ""), DriverState.RUNS)


def _told(metadata: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[str]:
    """What went wrong, or what it waits for."""
    if "deletionTimestamp" in metadata:
        yield "its pod is deleted"
    if status.get("reason"):  # Evicted, NodeLost, DeadlineExceeded, …
        yield _with(status["reason"], status)
    for condition in status.get("conditions") or ():
        if condition["status"] == _TELLING.get(condition["type"]):
            yield _with(condition.get("reason", ""), condition)
    for each in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        state = each.get("state") or {}
        if waits := state.get("waiting"):  # ImagePullBackOff, CreateContainerConfigError, …
            if waits.get("reason", "") not in _STARTS:
                yield _with(f"container {each['name']} waits: {waits['reason']}", waits)
        elif (ended := state.get("terminated")) and ended["exitCode"]:
            reason = f" ({ended['reason']})" if ended.get("reason") else ""
            yield _with(f"container {each['name']} has ended with exit code {ended['exitCode']}{reason}", ended)


def _with(text: str, said: Mapping[str, Any]) -> str:
    return f"{text}: {said['message']}" if said.get("message") else text


def _ms(time: str) -> int:
    return round(datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp() * 1_000)
