"""What Kubernetes says about a pod, as a driver: its state, and why."""

from __future__ import annotations

from typing import Any

import pytest
from fake_kubernetes import CONTAINER, FAILED, IMAGE, RUNNING, SUCCEEDED, exited, pod_of, runs, waits

from airflow_provider.spark.submit.detached import DriverState
from airflow_provider.spark.submit.pods import conf_map_of, driver_of

RUNS, DONE, BROKEN = DriverState.RUNS, DriverState.SUCCEEDED, DriverState.FAILED
NO_ROOM = "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available: 3 No victims found."
STARTS = waits("PodInitializing")
LOW = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 40Mi."


def pod(status: dict[str, Any], *, deleted: bool = False) -> dict[str, Any]:
    made = pod_of({"spark.kubernetes.driver.pod.name": "cospark-1-1"}, "conf-map")
    made["metadata"] |= {"namespace": "etl", "creationTimestamp": "2026-11-30T11:00:01Z"}
    if deleted:
        made["metadata"]["deletionTimestamp"] = "2026-11-30T11:05:00Z"
    return {**made, "status": status}


def condition(kind: str, status: str, reason: str, message: str) -> dict[str, Any]:
    since = {"lastProbeTime": None, "lastTransitionTime": "2026-11-30T11:00:02Z"}
    return {"type": kind, "status": status, "reason": reason, "message": message, **since}


@pytest.mark.parametrize(
    ("status", "state", "why"),
    [
        ({"phase": "Pending"}, RUNS, ""),
        ({"phase": "Pending", "containerStatuses": [waits("ContainerCreating")]}, RUNS, ""),
        (RUNNING, RUNS, ""),
        ({"phase": "Unknown"}, RUNS, ""),
        ({"phase": "SomethingNew"}, RUNS, ""),
        ({}, RUNS, ""),
        (SUCCEEDED, DONE, ""),
        ({"phase": "Succeeded"}, DONE, ""),
        (FAILED, BROKEN, f"container {CONTAINER} has ended with exit code 1 (Error)"),
        (
            {"phase": "Failed", "containerStatuses": [exited(137, "OOMKilled")]},
            BROKEN,
            f"container {CONTAINER} has ended with exit code 137 (OOMKilled)",
        ),
    ],
)
def test_its_state_is_its_phase_and_a_failure_has_the_exit_code(
    status: dict[str, Any], state: DriverState, why: str
) -> None:
    found = driver_of(pod(status))
    assert (found.state, found.why) == (state, why)
    assert (found.id, found.submitted_ms) == ("etl:cospark-1-1", 1_796_036_401_000)


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (
            {"conditions": [condition("PodScheduled", "False", "Unschedulable", NO_ROOM)]},
            f"Unschedulable: {NO_ROOM}",
        ),
        (
            {"containerStatuses": [waits("ImagePullBackOff", f'Back-off pulling image "{IMAGE}"')]},
            f'container {CONTAINER} waits: ImagePullBackOff: Back-off pulling image "{IMAGE}"',
        ),
        (
            {"containerStatuses": [waits("CreateContainerConfigError", 'secret "lake" not found')]},
            f'container {CONTAINER} waits: CreateContainerConfigError: secret "lake" not found',
        ),
        (
            {"initContainerStatuses": [waits("ErrImagePull", name="fetch")], "containerStatuses": [STARTS]},
            "container fetch waits: ErrImagePull",
        ),
    ],
)
def test_why_one_does_not_start_is_told_and_it_may_still_start(status: dict[str, Any], why: str) -> None:
    found = driver_of(pod({"phase": "Pending", **status}))
    assert (found.state, found.why) == (RUNS, why)


def test_one_that_is_evicted_by_its_node_has_failed() -> None:
    found = driver_of(pod({"phase": "Failed", "reason": "Evicted", "message": LOW}))
    assert (found.state, found.why) == (BROKEN, f"Evicted: {LOW}")


def test_one_whose_node_is_lost_may_go_on_until_kubernetes_says_that_it_has_ended() -> None:
    said = "Taint manager: deleting due to NoExecute taint"
    taint = condition("DisruptionTarget", "True", "DeletionByTaintManager", said)
    lost = driver_of(pod({**RUNNING, "conditions": [taint]}, deleted=True))
    assert lost.state is RUNS
    assert lost.why == f"its pod is deleted; DeletionByTaintManager: {said}"
    gone = condition("DisruptionTarget", "True", "DeletionByPodGC", "PodGC: node no longer exists")
    ended = driver_of(pod({"phase": "Failed", "conditions": [gone]}, deleted=True))
    assert (ended.state, "PodGC: node no longer exists" in ended.why) == (DriverState.KILLED, True)


def test_one_that_is_deleted_is_killed_when_it_has_ended() -> None:
    assert driver_of(pod(RUNNING, deleted=True)).state is RUNS
    ended = {"phase": "Failed", "containerStatuses": [exited(143, "Error")]}
    found = driver_of(pod(ended, deleted=True))
    assert found.state is DriverState.KILLED
    assert found.why == f"its pod is deleted; container {CONTAINER} has ended with exit code 143 (Error)"


def test_one_that_has_succeeded_has_done_so_also_while_its_record_is_deleted() -> None:
    assert driver_of(pod(SUCCEEDED, deleted=True)).state is DONE


@pytest.mark.parametrize(("code", "state"), [(0, DONE), (1, BROKEN)])
def test_a_sidecar_that_outlives_the_driver_does_not_count(code: int, state: DriverState) -> None:
    beside = [runs("mesh"), exited(code, "Completed" if code == 0 else "Error")]
    assert driver_of(pod({"phase": "Running", "containerStatuses": beside})).state is state


def test_a_sidecar_that_fails_after_the_driver_has_succeeded_does_not_count_either() -> None:
    both = [exited(0, "Completed"), exited(1, "Error", name="mesh")]
    assert driver_of(pod({"phase": "Failed", "containerStatuses": both})).state is DONE


def test_a_container_of_a_template_may_have_another_name() -> None:
    assert driver_of(pod({"phase": "Running", "containerStatuses": [exited(0, "Completed", name="etl")]})).state is DONE
    two = [exited(0, "Completed", name="etl"), runs("mesh")]
    assert driver_of(pod({"phase": "Running", "containerStatuses": two})).state is RUNS


def test_a_long_message_is_cut_and_has_one_line() -> None:
    found = driver_of(pod({"phase": "Failed", "containerStatuses": [exited(1, "Error", message="so\nmuch " * 1000)]}))
    assert "so much so" in found.why
    assert len(found.why) <= 1000


def test_what_it_needs_to_start_is_known_until_it_has_started() -> None:
    assert conf_map_of(pod({"phase": "Pending"})) == "conf-map"
    assert conf_map_of(pod(RUNNING)) == ""
    assert conf_map_of({"metadata": {}, "spec": {"volumes": None}, "status": {"phase": "Pending"}}) == ""


@pytest.mark.parametrize("other", [{}, {"metadata": {}}, {"metadata": {"name": "a", "namespace": "b"}}])
def test_something_else_is_no_driver(other: dict[str, Any]) -> None:
    with pytest.raises(KeyError):
        driver_of(other)
