"""Jars that are fetched: only those are used whose checksums are known."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from airflow_provider.servers import jars
from airflow_provider.servers.jars import JarsUnavailableError, fetch_jars

JAR = "org.example_thing-1.jar"
SUBMIT = f"""#!/bin/sh
for argument in "$@"; do
  case $argument in spark.jars.ivy=*) ivy=${{argument#*=}} ;; esac
done
mkdir -p "$ivy/jars" "$ivy/cache"
cp "$(dirname "$0")/arrives" "$ivy/jars/{JAR}"
"""


@pytest.fixture
def arrives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """What a resolver will fetch as the jar."""
    submit = tmp_path / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text(SUBMIT)
    submit.chmod(0o755)
    monkeypatch.setattr(jars, "pyspark_home", lambda: tmp_path)
    monkeypatch.setattr(jars, "find_java", lambda: Path("java"))
    return submit.parent / "arrives"


def fetch(tmp_path: Path) -> tuple[Path, ...]:
    known = tmp_path / "known"
    known.write_text(f"{hashlib.sha256(b'looked at').hexdigest()}  {JAR}\n")
    return fetch_jars("org.example:thing:1", cache=tmp_path / "cache", known=known, report=lambda _: None)


def test_a_jar_is_used_if_its_checksum_is_known(arrives: Path, tmp_path: Path) -> None:
    arrives.write_text("looked at")
    (jar,) = fetch(tmp_path)
    assert (jar.name, jar.read_text()) == (JAR, "looked at")


def test_any_other_is_not_and_nothing_of_it_is_kept(arrives: Path, tmp_path: Path) -> None:
    arrives.write_text("evil")
    evil = hashlib.sha256(b"evil").hexdigest()
    with pytest.raises(JarsUnavailableError, match=f"so they are not used:\n{evil}  {JAR}$"):
        fetch(tmp_path)
    assert not list((tmp_path / "cache").rglob("*.jar"))
    arrives.write_text("looked at")
    assert len(fetch(tmp_path)) == 1, "the next try fetches it again"
