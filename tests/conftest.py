"""Fixtures that more than one level of tests needs: a real broker, certificates, names that no other test uses."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from airflow_provider.servers.local_broker import LocalBroker

_HERE = Path(__file__).parent
# Downloads for tests are kept in the checkout.
os.environ.setdefault("COSPARK_CACHE", str(_HERE.parent / ".cache"))
# Airflow writes into its home when it is imported: never use the user's.
if "AIRFLOW_HOME" not in os.environ:
    os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="cospark-airflow-")
    atexit.register(shutil.rmtree, os.environ["AIRFLOW_HOME"], ignore_errors=True)
# Helpers beside this file (certificates.py, ...) are imported by name from any folder of tests.
sys.path.insert(0, str(_HERE))

from certificates import Certificates, make_certificates  # noqa: E402
from how_many import examples  # noqa: E402
from left_behind import keep_logs  # noqa: E402
from waiting import DEADLINE_S, SLOWNESS, TEST_LIMIT_S  # noqa: E402

# The time of one example means nothing on a busy machine: only the test's own time limit counts. Each run has other
# examples, so a few will do.
settings.register_profile(
    "busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=examples(25)
)
settings.load_profile("busy machine")

# Compares with kio, which needs Python 3.11.
collect_ignore = ["unit/kafka/group_requests/test_requests.py"] if sys.version_info < (3, 11) else []


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """A test that hangs ends, and shows where it was: no part of any claim, so it leaves a busy machine its time."""
    if config.option.timeout is None:
        config.option.timeout = TEST_LIMIT_S
    config.addinivalue_line("markers", "no_cover: pytest-cov leaves it alone, if that is loaded")
    gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """What was imported until now stays: whoever collects garbage need not go through all that again and again."""
    gc.enable()
    gc.freeze()


def pytest_report_header() -> str:
    return f"this machine takes {SLOWNESS:.1f} times as long as an idle one; whatever waits may take {DEADLINE_S:.0f} s"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What the processes of a test that failed have logged is kept; pytest soon removes its folder."""
    report = yield
    folder = getattr(item, "funcargs", {}).get("tmp_path")
    if report.failed and folder is not None:
        keep_logs(folder, item.nodeid)
    return report


@pytest.fixture(scope="session")
def broker() -> Iterator[LocalBroker]:
    """A real broker, shared by all tests of the run: don't stop it, and use group and topic names of your own."""
    # By default the log cleaner runs only every 15 s. Each time, it looks at all topics, of which there are hundreds.
    with LocalBroker(properties={"log.cleaner.backoff.ms": 1_000}, start_timeout_s=DEADLINE_S) as running:
        yield running


@pytest.fixture
def group_id() -> str:
    """The name of a group that no other test uses."""
    return f"group-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))
