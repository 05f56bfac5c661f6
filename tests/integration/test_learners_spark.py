"""Streams with state are warm before they move, with a real Spark: when a worker joins, and when one leaves."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from fleet import MakeFleet, cospark
from waiting import DEADLINE_S, eventually
from warm_streams import Sink, written_by

from airflow_provider.state.records import TaskKind
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import WorkerId

WARM_UP_S = 2.0
SOME = 3


@pytest.fixture
def fleet(fleet: MakeFleet, tmp_path: Path) -> MakeFleet:
    """Its workers learn, and share a folder for checkpoints."""
    learn = ("--connect-protocol", "extensible", "--allow", "warm_streams")
    spark = ("--spark-master", "local[1]", "--spark-conf", "spark.sql.shuffle.partitions=1")
    return partial(fleet, *learn, *spark, "--checkpoint-root", str(tmp_path / "checkpoints"))


def learns(worker: str, _jobs: JobsSnapshot, status: StatusSnapshot) -> bool:
    said = status.workers.get(WorkerId(worker))
    return said is not None and len(said.learning) == 1


@pytest.mark.thorough  # each run has a stream that moves warm in one Spark, and workers whose tasks only move warm
async def test_a_stream_with_state_is_warm_before_it_moves_and_loses_nothing(fleet: MakeFleet, tmp_path: Path) -> None:
    sinks = [Sink(tmp_path, index) for index in range(2)]

    async def go_on() -> None:
        """Wait until each stream has written some more batches."""
        counts = [len(sink.batches()) + SOME for sink in sinks]
        await eventually(
            lambda: all(len(sink.batches()) >= count for sink, count in zip(sinks, counts, strict=True)),
            "each stream writes more",
        )

    async with fleet() as group:
        await group.submit(
            "totals",
            tasks=2,
            kind=TaskKind.STREAMING,
            entry_point="warm_streams:Totals",
            config={"folder": str(tmp_path), "warm_up_s": WARM_UP_S},
            replan_interval_ms=1_000,
        )
        group.start("w1")
        await go_on()
        first = {sink.batches()[-1].pid for sink in sinks}
        assert len(first) == 1

        group.start("w2")
        await group.wait_for(partial(learns, "w2"), "w2 learns a stream")
        before = [len(sink.batches()) for sink in sinks]
        await eventually(lambda: len(set(written_by(sinks))) == 2, "both workers write")
        await go_on()
        (moved,) = [sink for sink in sinks if sink.batches()[-1].pid not in first]
        assert [(gap.moved, gap.restarted) for gap in moved.gaps() if gap.restarted] == [(True, True)]
        by_owner = [batch for batch in moved.batches() if batch.pid in first]
        assert len(by_owner) > before[sinks.index(moved)], "until then the owner ran it"
        assert moved.batches()[-1].warm, "it began with the result of its warm-up"

        said = await cospark(group, "scale", group.group_id, "--to", "50%", "--wait", "--timeout", str(DEADLINE_S))
        assert said.status == 0, said
        (left,) = [name for name in ("w1", "w2") if group.owned(name)]
        (gone,) = {"w1", "w2"} - {left}
        assert await group.ended(gone) == [0]
        await go_on()
        last = {sink.batches()[-1].pid for sink in sinks}
        assert len(last) == 1
        (again,) = [sink for sink in sinks if any(gap.moved and gap.at > moved_at(moved) for gap in sink.gaps())]
        assert again.batches()[-1].warm
    assert all(sink.check() > 3 * SOME for sink in sinks)


def moved_at(sink: Sink) -> float:
    return min(gap.at for gap in sink.gaps() if gap.moved)
