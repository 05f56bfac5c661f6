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
    assert ("User application exited with status 1" in found.why) is ("FAILED" in said)


def test_one_that_waits_for_its_start_has_no_page_yet(manager: FakeResourceManager, yarn: Yarn) -> None:
    submit(manager, "cospark-1")
    manager.ends[APP] = ("ACCEPTED", "UNDEFINED")
    (found,) = yarn.find("cospark-1")
    assert found.page == ""


def test_of_long_diagnostics_with_a_log_the_lines_that_tell_why_are_left(
    manager: FakeResourceManager, yarn: Yarn
) -> None:
    submit(manager, "cospark-1")
    manager.ends[APP] = ("FAILED", "FAILED")
    (found,) = yarn.find("cospark-1")
    assert found.why == (
        f"Application {APP} failed 2 times due to AM Container for appattempt_1700000000000_0000_000002 exited with"
        " exitCode: 13 26/11/30 08:58:35 ERROR ApplicationMaster: User application exited with status 1"
        " 26/11/30 08:58:35 ERROR ApplicationMaster: Uncaught exception:"
        " org.apache.spark.SparkException: Exception thrown in awaitResult:"
        " Caused by: org.apache.spark.SparkUserAppException: User application exited with 1"
    )


def test_long_diagnostics_without_such_a_line_are_cut(manager: FakeResourceManager, yarn: Yarn) -> None:
    submit(manager, "cospark-1")
    manager.ends[APP] = ("FAILED", "FAILED")
    manager.log = "so much\n" * 1000
    (found,) = yarn.find("cospark-1")
    assert found.why.startswith(f"Application {APP} failed 2 times")
    assert "so much" in found.why
    assert len(found.why) <= 1000


def test_one_is_killed_by_its_id_in_the_name_of_the_user(
    manager: FakeResourceManager, yarn: Yarn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", "ann")
    submit(manager, "cospark-1")
    yarn.kill(APP)
    yarn.kill(APP)
    assert {*manager.kills} == {(APP, "ann")}
    (found,) = yarn.find("cospark-1")
    assert (found.state, found.why) == (
        DriverState.KILLED,
        "Application application_1700000000000_0000 was killed by user ann",
    )
    yarn.kill("application_1_0001")


def test_one_that_is_not_known_is_none(yarn: Yarn) -> None:
    assert yarn.look(APP) is None


@pytest.mark.parametrize("state", ["INITIALIZING", "STANDBY"])
def test_one_that_is_not_known_to_a_manager_that_has_just_started_may_be_there(
    manager: FakeResourceManager, yarn: Yarn, state: str
) -> None:
    """It would be submitted twice, or count as forgotten, or as killed."""
    submit(manager, "cospark-1")
    manager.state = state
    for question in (lambda: yarn.find("cospark-1"), lambda: yarn.look(APP), lambda: yarn.kill(APP)):
        with pytest.raises(ClusterSilentError, match=f"it is not active: {state}"):
            question()


def test_a_manager_that_becomes_active_meanwhile_is_asked_again(manager: FakeResourceManager, yarn: Yarn) -> None:
    submit(manager, "cospark-1")
    manager.state, manager.becomes = "STANDBY", ["ACTIVE"]
    assert [driver.id for driver in yarn.find("cospark-1")] == [APP]


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
