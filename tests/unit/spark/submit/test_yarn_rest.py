"""What is asked of YARN's resource manager, and how its answers are read; with a stand-in for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_resource_manager import FakeResourceManager, resource_manager

from airflow_provider.spark.submit.detached import ClusterSilentError, DriverState
from airflow_provider.spark.submit.yarn import NoYarnError, Yarn, addresses_in, yarn_here

APP = "application_1700000000000_0000"
NOBODY = "http://127.0.0.1:1"


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[FakeResourceManager]:
    with resource_manager(tmp_path / "submitted") as manager:
        yield manager


@pytest.fixture
def yarn(manager: FakeResourceManager) -> Yarn:
    return Yarn([f"http://{manager.address}"])


def submit(manager: FakeResourceManager, tag: str) -> None:
    file = manager.folder / str(len(manager.apps()))
    file.write_text(f"spark.yarn.tags={tag}\n")


def test_drivers_are_found_by_their_tag(manager: FakeResourceManager, yarn: Yarn) -> None:
    assert yarn.find("cospark-1") == []
    submit(manager, "cospark-1")
    submit(manager, "cospark-2")
    (found,) = yarn.find("cospark-1")
    assert (found.id, found.state, found.submitted_ms) == (APP, DriverState.RUNS, 1_700_000_000_000)
    assert found.page.endswith(f"/proxy/{APP}/")
    assert yarn.look(APP) == found


@pytest.mark.parametrize(
    ("said", "state"),
    [
        (("ACCEPTED", "UNDEFINED"), DriverState.RUNS),
        (("FINISHING", "SUCCEEDED"), DriverState.RUNS),
        (("FINISHED", "SUCCEEDED"), DriverState.SUCCEEDED),
        (("FINISHED", "FAILED"), DriverState.FAILED),
        (("FINISHED", "KILLED"), DriverState.KILLED),
        (("FINISHED", "UNDEFINED"), DriverState.FAILED),
        (("FAILED", "FAILED"), DriverState.FAILED),
        (("KILLED", "KILLED"), DriverState.KILLED),
    ],
)
def test_the_states_of_applications_are_those_of_drivers(
    manager: FakeResourceManager, yarn: Yarn, said: tuple[str, str], state: DriverState
) -> None:
    submit(manager, "cospark-1")
    manager.ends[APP] = said
    (found,) = yarn.find("cospark-1")
    assert found.state is state
    assert found.why == "User application exited with status 1"


def test_one_is_killed_by_its_id_in_the_name_of_the_user(
    manager: FakeResourceManager, yarn: Yarn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", "ann")
    submit(manager, "cospark-1")
    yarn.kill(APP)
    assert manager.kills == [(APP, "ann")]
    yarn.kill("application_1_0001")


def test_one_that_is_not_known_is_none(yarn: Yarn) -> None:
    assert yarn.look(APP) is None


def test_the_manager_that_answers_is_asked(manager: FakeResourceManager) -> None:
    assert Yarn([NOBODY, f"http://{manager.address}"]).find("cospark-1") == []
    with pytest.raises(ClusterSilentError, match=r"no resource manager answers \(http://127\.0\.0\.1:1: "):
        Yarn([NOBODY]).find("cospark-1")


def test_addresses_are_those_of_the_configuration(tmp_path: Path) -> None:
    properties = {"yarn.resourcemanager.hostname": "rm", "yarn.resourcemanager.webapp.address": "rm:18088"}
    lines = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>" for name, value in properties.items()
    )
    (tmp_path / "yarn-site.xml").write_text(f"<configuration>{lines}</configuration>")
    assert yarn_here({"HADOOP_CONF_DIR": str(tmp_path)})._addresses == ("http://rm:18088",)


@pytest.mark.parametrize(
    ("settings", "addresses"),
    [
        ({}, []),
        ({"hostname": "rm"}, ["http://rm:8088"]),
        ({"hostname": "rm", "webapp.address": "${yarn.resourcemanager.hostname}:1"}, ["http://rm:1"]),
        ({"ha.rm-ids": "a, b", "hostname.a": "x", "webapp.address.b": "y:1"}, ["http://x:8088", "http://y:1"]),
    ],
)
def test_without_an_address_it_is_at_the_usual_port(settings: dict[str, str], addresses: list[str]) -> None:
    assert addresses_in({f"yarn.resourcemanager.{name}": value for name, value in settings.items()}) == addresses


def test_with_tls_only_it_is_at_another_one() -> None:
    settings = {"yarn.http.policy": "HTTPS_ONLY", "yarn.resourcemanager.hostname": "rm"}
    assert addresses_in(settings) == ["https://rm:8090"]


@pytest.mark.parametrize("file", [None, "<configuration>", "<configuration/>"])
def test_a_worker_without_a_configuration_of_yarn_says_so(tmp_path: Path, file: str | None) -> None:
    if file is not None:
        (tmp_path / "yarn-site.xml").write_text(file)
    with pytest.raises(NoYarnError, match=r"^HADOOP_CONF_DIR: "):
        yarn_here({"YARN_CONF_DIR": str(tmp_path)})
    with pytest.raises(NoYarnError, match=r"^HADOOP_CONF_DIR: it is not set"):
        yarn_here({})
