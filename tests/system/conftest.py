"""A real Airflow for the system tests."""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from airflow_group import EXAMPLE_GROUP, LOOKS_ONCE, Group
from evidence import leave_behind
from fleet import NEVER_LOST, Fleet
from left_behind import folder_of, keep_logs
from left_open import pytest_runtest_protocol as pytest_runtest_protocol
from mailbox_statsd import Mailbox
from postgresql import chosen_database
from proxied import Network, proxied_broker
from quick_spark import have_spark_start_quickly
from side_by_side import Bodies, is_side_by_side, running
from tcp_proxy import TcpProxy
from waiting import DEADLINE_S, RUN_DEADLINE_S, SLOWNESS, TOLD_BY

import airflow_provider.example_dags
from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.servers.spark_connect import LocalConnectServer
from airflow_provider.spark.connect.client import require_client
from airflow_provider.spark.connect.server import ConnectServer, ConnectSettings
from demo.airflow import LocalAirflow

_HERE = Path(__file__).parent
_EXAMPLES = Path(airflow_provider.example_dags.__file__).parent
_JOBS = """
    from airflow_provider.spark.job import SparkJob

    class SecondFails(SparkJob):
        def plan(self, job):
            return [{"divide_by": 1}, {"divide_by": 0}, {"divide_by": 2}]

        def run(self, spark, task):
            rows = spark.range(10).collect()
            return {"rows": len(rows) // task.config["divide_by"]}

    class Endless(SparkJob):
        def plan(self, job):
            return [{}] * job.max_tasks

        def run(self, spark, task):
            while not task.wait(1):
                spark.range(10).collect()
"""


@pytest.hookimpl(trylast=True)  # after those that shuffle
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything in this folder as a slow system test, and put those that run side by side first."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.system)
    items.sort(key=lambda item: not is_side_by_side(item))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Wait for the body of a test that runs side by side with others: it has already begun."""
    body = pyfuncitem.funcargs.get("body")
    if not isinstance(body, Future):
        return None
    body.result()
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep what says why a test has failed, and name the folder."""
    report = yield
    airflow = getattr(item, "funcargs", {}).get("airflow")
    if report.failed and isinstance(airflow, LocalAirflow):
        folder = folder_of(item.nodeid) if is_side_by_side(item) else leave_behind(item.nodeid, airflow, MADE)
        report.sections.append(("left behind", str(folder)))
    return report


@pytest.fixture(autouse=True)
def body(request: pytest.FixtureRequest) -> Future[None] | None:
    if not is_side_by_side(request.node):
        return None
    bodies: Bodies = request.getfixturevalue("bodies")
    return bodies[request.node.nodeid]


@pytest.fixture(scope="session")
def bodies(
    request: pytest.FixtureRequest,
    airflow: LocalAirflow,
    network: Network,
    statsd: Mailbox,
    example_folder: Path,
    server: ConnectSettings,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Bodies]:
    @contextmanager
    def fixtures(test: str) -> Iterator[dict[str, Any]]:
        with ExitStack() as stack:
            groups = stack.enter_context(making_groups(airflow, network.broker))
            outside_logs = tmp_path_factory.mktemp("outside")
            outside = stack.enter_context(making_fleets(network.broker, outside_logs))
            (way,) = network.ways
            group = groups()
            try:
                yield {
                    "airflow": airflow,
                    "broker": network.broker,
                    "example_folder": example_folder,
                    "group": group,
                    "outside": outside,
                    "server": server,
                    "statsd": statsd,
                    "tmp_path": tmp_path_factory.mktemp("beside"),
                    "way": way,
                }
            except BaseException:
                leave_behind(test, airflow, [group])
                keep_logs(outside_logs, test)
                raise

    with running(request.session.items, fixtures) as begun:
        yield begun


StartAirflow = Callable[..., LocalAirflow]


@pytest.fixture(scope="module")
def start_airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartAirflow]:
    """Starts an Airflow for the tests of one module: ``start_airflow([dags], connections=...)``.

    For tests that need one of their own; the others share :func:`airflow`.
    """
    started = ExitStack()

    def start(
        dag_folders: Sequence[Path],
        *,
        connections: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> LocalAirflow:
        home = tmp_path_factory.mktemp("airflow")
        airflow = LocalAirflow(
            home,
            dag_folders=dag_folders,
            connections=connections,
            database=started.enter_context(chosen_database(home)),
            env=env,
            timeout_s=RUN_DEADLINE_S,
        )
        return started.enter_context(airflow)

    with started:
        yield start


@pytest.fixture(scope="session", autouse=True)
def quick_spark() -> None:
    have_spark_start_quickly()


@pytest.fixture(scope="session")
def network() -> Iterator[Network]:
    with proxied_broker(1) as network:
        yield network


@pytest.fixture(scope="session")
def broker(network: Network) -> LocalBroker:
    return network.broker


@pytest.fixture
def way(network: Network) -> Iterator[TcpProxy]:
    """The proxy between the broker and users of the connection ``distant``."""
    (way,) = network.ways
    yield way
    way.heal()


@pytest.fixture(scope="session")
def example_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder where the examples read and write."""
    return tmp_path_factory.mktemp("example")


@pytest.fixture(scope="session")
def statsd() -> Iterator[Mailbox]:
    with Mailbox() as mailbox:
        yield mailbox


@pytest.fixture(scope="session")
def airflow(
    network: Network, statsd: Mailbox, example_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalAirflow]:
    """The Airflow that these tests share, with all their DAGs. Each test leaves a scheduler and a triggerer running."""
    modules, examples = tmp_path_factory.mktemp("modules"), tmp_path_factory.mktemp("dags") / "cospark_examples"
    (modules / "cospark_system_jobs.py").write_text(textwrap.dedent(_JOBS))
    examples.symlink_to(_EXAMPLES)  # a bundle is named after its folder, and example_dags is Airflow's own
    home = tmp_path_factory.mktemp("airflow")
    env = {
        "PYTHONPATH": os.pathsep.join(map(str, (modules, _HERE.parent, _HERE.parents[1]))),
        TOLD_BY: str(SLOWNESS),
        "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "1",  # as by default: the demo's looks for work more often
        "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "6",
        "AIRFLOW__METRICS__STATSD_ON": "True",
        "AIRFLOW__METRICS__STATSD_HOST": "127.0.0.1",
        "AIRFLOW__METRICS__STATSD_PORT": str(statsd.port),
        "AIRFLOW__COOPERATIVE_SPARK__METRICS_INTERVAL": "2",
        "AIRFLOW__COOPERATIVE_SPARK__PAGE_ACTIONS": "all",
        # For the examples. The DAGs of these tests ask for a classic group, as their workers have it by default.
        "AIRFLOW__COOPERATIVE_SPARK__DEFAULT_GROUP_PROTOCOL": "connect",
        "COSPARK_EXAMPLE_CONN_ID": "broker",
        "COSPARK_EXAMPLE_GROUP": EXAMPLE_GROUP,
        "COSPARK_EXAMPLE_FOLDER": str(example_folder),
        "COSPARK_EXAMPLE_BROKERS": network.near,
        "COSPARK_EXAMPLE_SPARK": version("pyspark"),
        **LOOKS_ONCE,
    }
    with (
        chosen_database(home) as database,
        LocalAirflow(
            home,
            dag_folders=[_HERE / "plain_dags", _HERE / "worker_dags", _HERE / "fault_dags", examples],
            connections={"some_broker": "kafka://broker.example:9092"},
            database=database,
            parallelism=24,
            imports=("imported_by_tasks", "patient_endings"),
            timeout_s=RUN_DEADLINE_S,
            env=env,
        ) as airflow,
    ):
        # In the database, as users have them, and not in the environment: so they have to be fetched from Airflow.
        for name, servers in {"broker": network.near, "distant": network.ways[0].address}.items():
            extra = json.dumps({"bootstrap.servers": servers})
            body = {"connection_id": name, "conn_type": "kafka", "extra": extra}
            airflow.api.request("POST", "/connections", json=body)
        yield airflow


@pytest.fixture(scope="session")
def server(airflow: LocalAirflow) -> Iterator[ConnectSettings]:
    """The Spark Connect server of these tests and of the examples, with a connection to it in Airflow's database. By
    host name: without TLS, a token is only sent to ``localhost``.
    """
    require_client()
    name, token = "spark_connect_default", "s3cret-t0ken"
    with LocalConnectServer(token=token, start_timeout_s=DEADLINE_S) as running:
        server = ConnectServer(host="localhost", port=ConnectServer.parse(running.url).port)
        body = {"connection_id": name, "conn_type": "spark_connect", "password": token}
        airflow.api.request("POST", "/connections", json=body | {"host": server.host, "port": server.port})
        yield ConnectSettings(server=server, token=token, conn_id=name)


MakeGroup = Callable[[], Group]
MADE: list[Group] = []
"""The groups of the tests that are running."""
MakeFleet = Callable[..., Fleet]


@contextmanager
def making_groups(airflow: LocalAirflow, broker: LocalBroker) -> Iterator[MakeGroup]:
    """Makes groups, and stops their workers at the end: they would occupy Airflow's slots in the next test."""
    with ExitStack() as made:

        def make() -> Group:
            group = made.enter_context(closing(Group(airflow, broker.bootstrap_servers)))
            made.callback(group.stop_workers)
            MADE.append(group)
            made.callback(MADE.remove, group)
            return group

        yield make


@contextmanager
def making_fleets(broker: LocalBroker, folder: Path) -> Iterator[MakeFleet]:
    """Makes workers of a group in processes of their own, without Airflow."""
    with ExitStack() as made:

        def make(group: Group, *options: str) -> Fleet:
            common = (*NEVER_LOST, "--runner", "noop", "--slots", "10", "--allow", "jobs")
            fleet = Fleet(broker.bootstrap_servers, group.name, folder, *common, *options)
            made.callback(fleet.end)
            return fleet

        yield make


@pytest.fixture
def groups(airflow: LocalAirflow, broker: LocalBroker) -> Iterator[MakeGroup]:
    with making_groups(airflow, broker) as make:
        yield make


@pytest.fixture
def group(groups: MakeGroup) -> Group:
    return groups()


@pytest.fixture
def outside(broker: LocalBroker, tmp_path: Path) -> Iterator[MakeFleet]:
    with making_fleets(broker, tmp_path) as make:
        yield make
