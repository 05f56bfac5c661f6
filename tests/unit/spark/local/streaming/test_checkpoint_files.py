"""Which files of a stream's checkpoint its next start reads."""

from __future__ import annotations

from airflow_provider.spark.local.streaming.checkpoint_files import newest


def test_of_each_folder_the_newest_whole_file_and_what_is_newer() -> None:
    state = [
        f"state/0/1/{name}" for name in ("8.delta", "9.delta", "10.delta", "11.delta", "10.snapshot", "7.snapshot")
    ]
    changes = [f"state/0/2/{name}" for name in ("3_a-b.zip", "3_a-b.changelog", "4_c-d.changelog", "2.zip")]
    log = [f"offsets/{name}" for name in ("8", "9", "10", ".10.crc")]
    assert newest([*state, *changes, *log, "state/0/_metadata/schema", "metadata"]) == [
        "offsets/10",
        "state/0/1/10.snapshot",
        "state/0/1/11.delta",
        "state/0/2/3_a-b.zip",
        "state/0/2/4_c-d.changelog",
    ]
    assert newest([]) == []
