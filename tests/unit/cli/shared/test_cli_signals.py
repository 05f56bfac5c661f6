"""A worker in the foreground hears that it shall end, however busy its loop is."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from waiting import DEADLINE_S, eventually, wait_until

from airflow_provider.cli.shared import signals
from airflow_provider.cli.shared.signals import handlers_restored, leave_when_signalled

MORE_THAN_THE_LOOPS_PIPE_HOLDS = 5_000


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    with handlers_restored():
        yield


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_is_heard_though_threads_have_handed_over_more_than_the_loop_can_take(
    number: signal.Signals,
) -> None:
    told: list[str] = []
    leave_when_signalled(told.append)
    loop = asyncio.get_running_loop()

    def hand_over() -> None:
        for _ in range(MORE_THAN_THE_LOOPS_PIPE_HOLDS):
            loop.call_soon_threadsafe(int)

    thread = threading.Thread(target=hand_over)
    thread.start()
    thread.join()  # the loop is busy meanwhile
    os.kill(os.getpid(), number)
    await eventually(lambda: told, "it was told to leave")
    assert told == [f"signal {number.name}"]


async def test_a_loop_that_waits_is_woken() -> None:
    told: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    leave_when_signalled(told.set_result)
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM)).start()
    assert await asyncio.wait_for(told, DEADLINE_S) == "signal SIGTERM"


async def test_whoever_signals_a_process_and_its_group_means_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "_ONE_SIGNAL_S", DEADLINE_S)
    told: list[str] = []
    leave_when_signalled(told.append)
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGINT)
    await eventually(lambda: told)
    assert told == ["signal SIGTERM"]


def test_a_second_signal_ends_a_process_whose_loop_is_stuck() -> None:
    stuck = (
        "import asyncio, time\n"
        "from airflow_provider.cli.shared import signals\n"
        "signals._ONE_SIGNAL_S = 0\n"
        "async def work():\n"
        "    signals.leave_when_signalled(print)\n"
        "    print('ready', flush=True)\n"
        "    while True: time.sleep(0.01)\n"
        "asyncio.run(work())\n"
    )
    command = [sys.executable, "-c", stuck]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)

        def has_ended() -> bool:
            """Signals that come in the same moment count as one."""
            process.send_signal(signal.SIGTERM)
            return process.poll() is not None

        try:
            wait_until(has_ended, "a second signal ends it")
            _, words = process.communicate()
        finally:
            process.kill()
    assert process.returncode - 128 in (signal.SIGINT, signal.SIGTERM), "which comes second, the kernel says"
    assert "the worker ends immediately" in words


def test_afterwards_others_handle_them_as_before() -> None:
    before = signal.getsignal(signal.SIGTERM)

    async def work() -> None:
        leave_when_signalled(print)

    with handlers_restored():
        asyncio.run(work())
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
