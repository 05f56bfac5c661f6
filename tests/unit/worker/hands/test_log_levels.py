"""The levels of the jobs' loggers, asked for by anybody and set where the jobs run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest
from executor_bench import Bench
from group_records import record_of
from stand_ins import MemoryTopics

from airflow_provider.cli.main import main
from airflow_provider.cli.shared import reading
from airflow_provider.state.operations.operations import OperationError, Outcome, SetLogLevel
from airflow_provider.state.records import ActionEvent, LogLevel, WorkerPhase, WorkerStatus
from airflow_provider.state.records.jobs_topic.log_levels import MOST_LOGGERS
from airflow_provider.values.model import NO_TASKS, Epoch, WorkerId
from airflow_provider.worker.hands.log_levels import LogLevels

pytestmark = pytest.mark.turned_clock

W1, W2 = WorkerId("w1"), WorkerId("w2")
DEBUG, ERROR, INFO = LogLevel.DEBUG, LogLevel.ERROR, LogLevel.INFO


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    names = ("pkg", "pkg.jobs", "pkgs.jobs", "py4j")
    before = {name: logging.getLogger(name).level for name in names}
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


def group_of(*workers: WorkerId, allowed: tuple[str, ...] | None = None) -> MemoryTopics:
    """A group whose workers have said what they may import."""
    topics = MemoryTopics("g")

    async def say() -> None:
        if workers:
            await topics.publish_group(record_of(dict.fromkeys(workers, NO_TASKS)))
        for name in workers:
            state = WorkerPhase.STABLE
            await topics.publish_worker(
                WorkerStatus(worker=name, state=state, epoch=Epoch(5), slots=1, allowed=allowed)
            )

    asyncio.run(say())
    return topics


def ask(topics: MemoryTopics, logger: str, level: LogLevel | None, worker: WorkerId | None = None) -> Outcome:
    return asyncio.run(topics.carry_out(SetLogLevel(logger=logger, level=level, worker=worker), by="me"))


def test_a_level_for_one_worker_comes_before_that_for_all() -> None:
    topics = group_of(W1, W2)
    ask(topics, "pkg.jobs", DEBUG)
    ask(topics, "pkg", ERROR)
    ask(topics, "pkg.jobs", INFO, W1)
    assert topics.jobs.levels_of(W1) == {"pkg.jobs": INFO, "pkg": ERROR}
    assert topics.jobs.levels_of(W2) == {"pkg.jobs": DEBUG, "pkg": ERROR}
    assert ask(topics, "pkg.jobs", None, W1).changed
    assert topics.jobs.levels_of(W1) == topics.jobs.levels_of(W2)
    assert set(topics.jobs.levels) == {"*"}, "what says nothing any more is gone"
    assert not ask(topics, "pkg.jobs", DEBUG).changed
    done = [event for event in topics.events if isinstance(event, ActionEvent)]
    assert [(event.subject, event.by, event.details) for event in done][-2:] == [
        ("pkg.jobs", "me", "INFO, in w1"),
        ("pkg.jobs", "me", "reset, in w1"),
    ]


def test_as_many_loggers_have_a_level_as_fit_in_a_record() -> None:
    topics = group_of(W1)
    for number in range(MOST_LOGGERS):
        assert ask(topics, f"pkg.a{number}", DEBUG).changed
    assert len(topics.jobs.levels_of(W1)) == MOST_LOGGERS
    with pytest.raises(OperationError, match=f"{MOST_LOGGERS} others have a level already"):
        ask(topics, "pkg.more", DEBUG)
    assert ask(topics, "pkg.a0", ERROR).changed, "it has one already"


@pytest.mark.parametrize("name", ["", "root", "a b", "x" * 201, "7"])
def test_what_is_no_name_of_a_logger_is_refused(name: str) -> None:
    with pytest.raises(OperationError, match="give its name as in logging"):
        ask(MemoryTopics(), name, DEBUG)


@pytest.mark.parametrize(
    ("topics", "logger", "worker", "refusal"),
    [
        (group_of(W1, W2), "pkg", WorkerId("w9"), "the group has no worker 'w9'; it has w1, w2"),
        (
            group_of(W1, W2, allowed=("pkg", "etl.jobs")),
            "py4j",
            None,
            "no worker of the group may import such code as jobs. {MAY} in etl.jobs, pkg, or below",
        ),
        (
            group_of(W1, W2, allowed=()),
            "pkg",
            W2,
            "worker w2 may not import such code as jobs. {MAY} none: no job code is allowed",
        ),
    ],
)
def test_what_nobody_would_set_is_refused_with_what_there_is(
    topics: MemoryTopics, logger: str, worker: WorkerId | None, refusal: str
) -> None:
    with pytest.raises(OperationError) as refused:
        ask(topics, logger, DEBUG, worker)
    assert refusal.format(MAY="Loggers that may be set (allowed_entry_points):") in str(refused.value)
    assert not topics.jobs.levels
    assert not ask(topics, logger, None, worker).changed, "to reset it does no harm"


@pytest.mark.parametrize("topics", [group_of(), group_of(W1), group_of(W1, allowed=("pkg",))])
def test_what_somebody_sets_or_may_set_later_is_not_refused(topics: MemoryTopics) -> None:
    """A worker of an older release does not say what it may import."""
    assert ask(topics, "pkg.jobs", DEBUG).changed
    assert ask(topics, "pkg.jobs", DEBUG, W1).changed


def test_levels_are_set_and_put_back() -> None:
    logging.getLogger("pkg.jobs").setLevel(logging.WARNING)
    levels = LogLevels(["pkg"])
    levels.follow({"pkg.jobs": DEBUG})
    assert logging.getLogger("pkg.jobs").level == logging.DEBUG
    levels.follow({"pkg.jobs": ERROR, "pkg": INFO})
    assert (logging.getLogger("pkg.jobs").level, logging.getLogger("pkg").level) == (logging.ERROR, logging.INFO)
    levels.restore()
    assert (logging.getLogger("pkg.jobs").level, logging.getLogger("pkg").level) == (logging.WARNING, logging.NOTSET)


def test_only_what_is_job_code_is_touched(caplog: pytest.LogCaptureFixture) -> None:
    before = logging.getLogger("py4j").level
    levels = LogLevels(["pkg"])
    with caplog.at_level(logging.INFO, logger="airflow_provider.worker.hands.log_levels"):
        levels.follow({"py4j": DEBUG, "pkgs.jobs": DEBUG})
        levels.follow({"py4j": DEBUG, "pkgs.jobs": DEBUG})
    assert (logging.getLogger("py4j").level, logging.getLogger("pkgs.jobs").level) == (before, logging.NOTSET)
    assert [record.getMessage() for record in caplog.records] == [
        f"logger {name} is not changed: its code is not among the jobs that this worker may import"
        for name in ("pkgs.jobs", "py4j")
    ], "said once"


async def test_a_worker_follows_while_it_runs_and_puts_back_what_was_there_as_it_ends() -> None:
    bench = Bench(MemoryTopics(), slots=1, linger_s=60.0, log_levels=LogLevels(["pkg"]))
    await bench.topics.carry_out(SetLogLevel(logger="pkg.jobs", level=DEBUG), by="me")
    assert logging.getLogger("pkg.jobs").level == logging.DEBUG
    await bench.topics.carry_out(SetLogLevel(logger="pkg.jobs", level=None), by="me")
    assert logging.getLogger("pkg.jobs").level == logging.NOTSET
    await bench.topics.carry_out(SetLogLevel(logger="pkg.jobs", level=ERROR), by="me")
    await bench.executor.close()
    assert logging.getLogger("pkg.jobs").level == logging.NOTSET


def test_they_are_set_and_shown_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = group_of(W1, allowed=("pkg",))

    async def reach(_settings: object) -> None: ...

    def cli(*arguments: str) -> tuple[int, str, str]:
        status = main(["loggers", *arguments, "--bootstrap-servers", "nowhere:9"])
        told = capsys.readouterr()
        return status, told.out, told.err

    monkeypatch.setattr(reading, "reach", reach)
    monkeypatch.setattr(reading, "GroupTopics", lambda _settings, _group: topics)
    assert cli("list", "g") == (0, "group g: no level is set\n", "")
    assert cli("set", "g", "pkg.jobs", "DEBUG") == (0, "logger pkg.jobs: DEBUG, in all workers\n", "")
    assert cli("set", "g", "pkg.jobs", "INFO", "--worker", "w1") == (0, "logger pkg.jobs: INFO, in w1\n", "")
    assert cli("list", "g")[1] == "pkg.jobs: DEBUG, in all workers\npkg.jobs: INFO, in w1\n"
    assert cli("list", "g", "--json")[1] == '{"*": {"pkg.jobs": "DEBUG"}, "w1": {"pkg.jobs": "INFO"}}\n'
    assert cli("reset", "g", "pkg.jobs") == (0, "logger pkg.jobs: reset, in all workers\n", "")
    assert cli("reset", "g", "pkg.jobs")[1] == "logger pkg.jobs: reset, in all workers: nothing changed\n"
    assert cli("set", "g", "root", "DEBUG")[0] == 1
    assert cli("set", "g", "pkg", "DEBUG", "--worker", "w9") == (
        1,
        "",
        "cospark loggers set: the group has no worker 'w9'; it has w1\n",
    )
    assert cli("set", "g", "py4j", "DEBUG")[0] == 1


def test_a_handler_with_a_level_of_its_own_writes_them_too_and_nothing_else_more() -> None:
    written: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            written.append(record.getMessage())

    handler = Handler(logging.INFO)
    logging.getLogger().addHandler(handler)
    try:
        levels = LogLevels(["pkg"])
        levels.follow({"pkg.jobs": DEBUG})
        logging.getLogger("pkg.jobs").debug("of the job")
        logging.getLogger("py4j").setLevel(logging.DEBUG)
        logging.getLogger("py4j").debug("of another one")
        levels.restore()
        logging.getLogger("pkg.jobs").setLevel(logging.DEBUG)
        logging.getLogger("pkg.jobs").debug("afterwards")
    finally:
        logging.getLogger().removeHandler(handler)
    assert [text for text in written if not text.startswith("logger ")] == ["of the job"]
    assert (handler.level, handler.filters) == (logging.INFO, [])
