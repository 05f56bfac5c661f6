"""A second Airflow, for what the shared one's configuration does not have: groups are classic, nothing hides a
password, and all is logged. Only ``make thorough`` starts it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from airflow_group import LOOKS_ONCE
from certificates import Certificates
from names import EXAMPLES, SECRET_GROUP, TRIED, USER
from searching import ProcessWatch, Secret, new_password
from secured import SecuredBroker, rights_on_the_page, secured_broker
from waiting import RUN_DEADLINE_S

import airflow_provider.example_dags
from airflow_provider.servers.local_broker import LocalBroker
from demo.airflow import LocalAirflow

_TESTS = Path(__file__).parents[2]
_DAGS = Path(__file__).parent / "secret_dags"
_EXAMPLES = Path(airflow_provider.example_dags.__file__).parent


@pytest.fixture(scope="session")
def watch() -> Iterator[ProcessWatch]:
    thread = ProcessWatch()
    thread.start()
    yield thread
    thread.end()


@pytest.fixture(scope="session")
def secured(certificates: Certificates, watch: ProcessWatch) -> Iterator[SecuredBroker]:
    with secured_broker(certificates, {USER: new_password()}) as broker:
        rights = {right for role in rights_on_the_page().values() for right in role}
        broker.allow([(USER, right, group) for right in rights for group in (SECRET_GROUP, TRIED)])
        yield broker


@pytest.fixture(scope="session")
def right(secured: SecuredBroker) -> Secret:
    return Secret(secured.passwords[USER])


@pytest.fixture(scope="session")
def wrong() -> Secret:
    """A password that the broker does not know; it may still be somebody's."""
    return Secret(new_password())


@pytest.fixture(scope="session")
def example_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("example")


@pytest.fixture(scope="session")
def airflow(
    secured: SecuredBroker,
    wrong: Secret,
    broker: LocalBroker,
    example_folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[LocalAirflow]:
    examples = tmp_path_factory.mktemp("dags") / "cospark_examples"
    examples.symlink_to(_EXAMPLES)
    extras = {
        "secured": secured.extra(USER),
        "refused": secured.extra(USER, **{"sasl.password": wrong.password}),
        "kafka_default": {"bootstrap.servers": broker.bootstrap_servers},
    }
    airflow = LocalAirflow(
        tmp_path_factory.mktemp("airflow"),
        dag_folders=[_DAGS, examples],
        connections={name: json.dumps({"conn_type": "kafka", "extra": extra}) for name, extra in extras.items()},
        imports=("imported_by_tasks",),
        timeout_s=RUN_DEADLINE_S,
        env={
            "PYTHONPATH": os.pathsep.join(map(str, (_TESTS, _TESTS.parent))),
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "DEBUG",
            # A password must not be hidden from the search, neither masked nor encrypted. (In the logs of tasks Airflow
            # masks the connections that it has handed out anyway: another test checks what our code logs by itself.)
            "AIRFLOW__CORE__HIDE_SENSITIVE_VAR_CONN_FIELDS": "False",
            "AIRFLOW__CORE__FERNET_KEY": "",
            **LOOKS_ONCE,
            "COSPARK_EXAMPLE_GROUP": EXAMPLES,
            "COSPARK_EXAMPLE_FOLDER": str(example_folder),
        },
    )
    with airflow:
        yield airflow
