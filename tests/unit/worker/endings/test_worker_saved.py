"""What a worker leaves to the next process: whichever release and group protocol it is of, it is read or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from stand_ins import IdleListener
from worker_life import Life, living

from airflow_provider.group.live.classic.classic_member import GroupMember
from airflow_provider.group.membership import Memberships
from airflow_provider.integration.memberships.worker_values import WorkerSpec, WorkerStory
from airflow_provider.values.saved import SAVED_VERSION, check_saved
from airflow_provider.worker.endings.handed_over import HandedOver

pytestmark = pytest.mark.turned_clock

GOLDEN = Path(__file__).parents[2] / "releases" / "golden"


def saved_by(release: str) -> dict[str, Any]:
    """What a deferred trigger of that release has of its worker."""
    for document in json.loads((GOLDEN / f"{release}.json").read_text()):
        if document["type"].endswith("WorkerTrigger"):
            saved: dict[str, Any] = document["written"]["saved"]
            return saved
    raise AssertionError(f"{release} has no deferred worker")


@pytest.fixture
async def memberships() -> Memberships:
    return Life().memberships()


async def handed_over() -> dict[str, Any]:
    async with living() as life:
        return HandedOver(membership=await life.member.hand_over(), process="host/1/2/3").to_json()


async def test_what_is_handed_over_says_of_which_version_and_group_protocol_it_is() -> None:
    saved = await handed_over()
    assert json.loads(json.dumps(saved)) == saved
    assert saved["v"] == saved["member"]["v"] == SAVED_VERSION
    assert saved["member"]["group_protocol"] == "classic"
    assert HandedOver.from_json(saved).to_json() == saved


def test_the_last_release_is_read() -> None:
    saved = saved_by("0.1.0")
    assert HandedOver.from_json(saved).membership == saved["member"]


async def test_a_membership_that_does_not_say_its_protocol_is_classic(memberships: Memberships) -> None:
    saved = (await handed_over())["member"]
    listener = IdleListener()
    older = {name: value for name, value in saved.items() if name != "group_protocol"}
    for membership in (older, memberships.taken_over(older), memberships.taken_over(saved)):
        assert isinstance(memberships.make(listener, membership), GroupMember)


async def test_a_membership_of_another_protocol_is_refused(memberships: Memberships) -> None:
    saved = {**(await handed_over())["member"], "group_protocol": "connect"}
    listener = IdleListener()
    with pytest.raises(ValueError, match=r"'connect'.*uses 'classic'.*clear the task"):
        memberships.make(listener, saved)


@pytest.mark.parametrize("version", [None, 0, "1", True, 1.0])
def test_what_nobody_has_saved_is_refused(version: object) -> None:
    with pytest.raises(ValueError, match=f"not a saved plan.*{version!r}.*Clear the task"):
        check_saved({"v": version}, "plan")


def test_what_a_newer_release_has_saved_is_refused_with_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"version 2, but this release reads up to 1: upgrade the triggerer and the"):
        HandedOver.from_json({"v": SAVED_VERSION + 1, "member": {}})


@pytest.mark.parametrize(
    ("name", "garbage"),
    [("protocol", "x"), ("owned", [["a", -2]]), ("epoch", "x"), ("epoch", float("inf")), ("predecessor", None)],
)
async def test_garbage_in_a_membership_is_refused_with_what_to_do(
    memberships: Memberships, name: str, garbage: object
) -> None:
    saved = {**saved_by("0.1.0")["member"], name: garbage}
    with pytest.raises(ValueError, match=r"not a saved membership: .*Clear the task"):
        memberships.make(IdleListener(), saved)


@pytest.mark.parametrize("kind", [WorkerSpec, WorkerStory])
def test_garbage_that_goes_with_it_is_refused_with_what_to_do(kind: type[WorkerSpec] | type[WorkerStory]) -> None:
    with pytest.raises(ValueError, match=r"not a saved (plan|story): KeyError .*Clear the task"):
        kind.from_json({"v": SAVED_VERSION})
    with pytest.raises(ValueError, match=r"not a saved worker: .*Clear the task"):
        HandedOver.from_json({"v": SAVED_VERSION, "member": {}, "began_at": "x"})


@pytest.mark.parametrize("data", [{}, {"v": 1}, {"v": 1, "member": None}, {"v": 1, "member": []}])
def test_a_worker_without_a_membership_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="not a saved worker"):
        HandedOver.from_json(data)
