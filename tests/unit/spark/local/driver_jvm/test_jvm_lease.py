"""How long the JVM may go on without a word of its worker, and what it is told of the lease."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from waiting import eventually

from airflow_provider.spark.local.driver_jvm import jvm_lease
from airflow_provider.spark.local.driver_jvm.jvm_lease import ENDED_BY_LEASE, JvmLease, next_end

NOW, S = 10**18, 10**9


@pytest.mark.parametrize(
    ("left_s", "told", "end"),
    [
        (9.5, None, NOW + 9.5 * S),
        (9.5, NOW + 6 * S, NOW + 9.5 * S),
        (3.0, NOW + 6 * S, NOW + 3 * S),
        (None, NOW + 6 * S, None),
        (0.0, NOW + 6 * S, NOW + 2 * S),
        (-60.0, NOW + 1 * S, NOW + 1 * S),
        (0.0, NOW - 1 * S, NOW - 1 * S),
        (0.0, None, NOW + 2 * S),
    ],
    ids=[
        "a task begins",
        "a heartbeat was answered",
        "what is left has become less",
        "no task runs any more",
        "the coordinator has ended the lease before its time",
        "such an end is not put off by asking again",
        "a lease that is over stays over",
        "a task that begins after it stops again",
    ],
)
def test_the_end_that_a_jvm_is_told(left_s: float | None, told: int | None, end: float | None) -> None:
    assert next_end(NOW, left_s, told) == end


class Watch:
    """What a JVM is told."""

    def __init__(self) -> None:
        self.told: list[object] = []
        self.clock = NOW

    def now(self) -> int:
        return self.clock

    def renew(self, until: int) -> None:
        self.told.append((until - NOW) / S)

    def rest(self) -> None:
        self.told.append("rest")


class Jvm:
    """A JVM, and the leases of what runs in it."""

    def __init__(self) -> None:
        self.watch = Watch()
        self.left: Iterable[float | None] = [None]
        self.code: int | None = None
        process: Any = SimpleNamespace(poll=lambda: self.code)
        self.lease = JvmLease(process, self.watch, lambda: self.left)


@pytest.fixture
def seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is renewed only by the test."""
    monkeypatch.setattr(jvm_lease, "_LOOK_S", 3600)


class Clock:
    """Python's own, in seconds."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(jvm_lease, "monotonic", clock)
    return clock


@pytest.mark.usefixtures("seldom")
def test_a_jvm_rests_while_no_task_of_a_group_runs_in_it() -> None:
    jvm = Jvm()
    for jvm.left in ([], [None], [None, math.inf]):
        jvm.lease.renew()
    assert jvm.watch.told == []
    jvm.left = [None, 9.0, 8.0, math.inf]
    jvm.lease.renew()
    assert jvm.watch.told == [8.0], "what ends first"
    jvm.left = [None]
    jvm.lease.renew()
    jvm.lease.renew()
    assert jvm.watch.told == [8.0, "rest"]
    jvm.lease.close()


@pytest.mark.usefixtures("seldom")
def test_what_is_left_is_counted_from_a_moment_before_it_was_asked_for() -> None:
    """If everything is suspended in between, what the JVM hears when it wakes up is no promise for later."""
    jvm = Jvm()
    jvm.left = [9.0]
    jvm.lease.renew()

    class Suspended(Iterable[float | None]):
        def __iter__(self) -> Iterator[float | None]:
            jvm.watch.clock += 60 * S
            return iter([9.0])

    jvm.left = Suspended()
    jvm.lease.renew()
    assert jvm.watch.told == [9.0, 9.0]
    jvm.lease.close()


async def test_it_is_renewed_again_and_again_until_the_jvm_ends_and_then_it_says_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(jvm_lease, "_LOOK_S", 0.001)
    jvm = Jvm()
    jvm.left = [9.0]
    await eventually(lambda: len(jvm.watch.told) > 2)
    jvm.code = ENDED_BY_LEASE
    await eventually(
        lambda: "JVM has ended itself, because this worker had not renewed its lease for 9.0 s" in caplog.text
    )


def test_if_the_jvm_stood_still_the_worker_is_not_blamed(clock: Clock) -> None:
    jvm = Jvm()
    jvm.code = ENDED_BY_LEASE
    jvm.left = [28.7]
    jvm.lease.renew()

    def ends_when_it_wakes_up() -> int:
        clock.now_s += 40.0
        said.append(jvm.lease.why_over())
        raise ConnectionResetError

    def ended_long_ago() -> int:
        raise ConnectionRefusedError

    said: list[str] = []
    for jvm.watch.now in (ends_when_it_wakes_up, ended_long_ago):  # type: ignore[method-assign]
        with pytest.raises(ConnectionError):
            jvm.lease.renew()
    words = "it had not answered for 40.0 s, so this worker could not renew its lease (was the JVM suspended, or the"
    assert [why.removeprefix(words) for why in (*said, jvm.lease.why_over())] == [" machine overloaded?)"] * 2
    jvm.watch.now = lambda: NOW  # type: ignore[method-assign]
    jvm.lease.renew()
    assert jvm.lease.why_over().startswith("this worker had not renewed its lease for 28.7 s"), "it was heard since"
    jvm.lease.close()


def test_if_this_process_was_suspended_while_it_asked_the_jvm_is_not_blamed(clock: Clock) -> None:
    jvm = Jvm()
    jvm.code = ENDED_BY_LEASE
    jvm.left = [9.0]
    jvm.lease.renew()

    def answers_before_python_goes_on() -> int:
        clock.now_s += 40.0
        return NOW

    def has_ended_meanwhile(until: int) -> None:
        raise ConnectionResetError

    jvm.watch.now = answers_before_python_goes_on  # type: ignore[method-assign]
    jvm.watch.renew = has_ended_meanwhile  # type: ignore[method-assign]
    with pytest.raises(ConnectionError):
        jvm.lease.renew()
    assert jvm.lease.why_over().startswith("this worker had not renewed its lease for 9.0 s")
    jvm.lease.close()


@pytest.mark.usefixtures("seldom")
def test_a_jvm_is_left_alone_when_its_spark_has_stopped() -> None:
    jvm = Jvm()
    jvm.left = [9.0]
    jvm.lease.renew()
    jvm.lease.close()
    jvm.lease.renew()
    assert jvm.watch.told == [9.0, "rest"]


@pytest.mark.parametrize("left_s", [-1.0, 0.3])
def test_if_python_has_seen_the_lease_run_out_a_task_that_ran_on_is_the_reason(left_s: float) -> None:
    jvm = Jvm()
    jvm.left = [left_s]
    jvm.lease.renew()
    assert jvm.lease.why_over() == "a task still ran when this worker's lease was over"
    jvm.lease.close()
