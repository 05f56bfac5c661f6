"""A leader counts above every epoch that a member of its round knows, as no record may tell it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from member_script import tasks
from test_leader import NOW, call, record_of, two_workers

from airflow_provider.group.classic.leader.leader import lead
from airflow_provider.group.classic.member.events import JoinedMember
from airflow_provider.group.classic.wire import LEARNING, v3, v4
from airflow_provider.group.classic.wire.extensible import ExtensibleState
from airflow_provider.values.model import ConfigOffset, Epoch, MemberId, SubProtocol
from airflow_provider.values.packed_tasks import PackedTasks

HIGHEST = NOW * 1_000
"""Nobody can have counted any further."""


def extensible(name: str, epoch: int | None) -> JoinedMember:
    """A member that has been in this epoch last; None: in none."""
    state = ExtensibleState(
        url="",
        config_offset=ConfigOffset(7),
        owned=PackedTasks.of(tasks("")),
        epoch=None if epoch is None else Epoch(epoch),
    )
    return JoinedMember(member_id=MemberId(f"{name}-1"), instance_id=name, metadata=v3.encode_metadata(state))


@pytest.mark.parametrize(
    ("epochs", "epoch"), [((7, 8), 9), ((None, 8), 9), ((8, None), 9), ((None, 2), 5), ((None, None), 5)]
)
def test_a_round_of_version_3_is_above_those_in_which_its_members_have_been(
    epochs: tuple[int | None, int | None], epoch: int
) -> None:
    """The last record is of generation 4, and one after it was lost: of a count that the coordinator began again."""
    members = [extensible(name, said) for name, said in zip(("w1", "w2"), epochs, strict=True)]
    answer = lead(call(*members, generation=5, last=two_workers(4), protocol=SubProtocol.EXTENSIBLE))
    assert record_of(answer).epoch == epoch
    told = {v3.decode_assignment(data).epoch for data in answer.assignments.values()}
    assert told == {epoch}


def test_a_round_of_version_4_is_recorded_as_one_of_version_3() -> None:
    """An older release reads the record. Its rules are the same."""
    states = [
        ExtensibleState(version=4, config_offset=ConfigOffset(7), owned=PackedTasks.of(tasks(owned)))
        for owned in ("a0 a1", "b0")
    ]
    answers = [
        lead(
            call(
                *(
                    JoinedMember(
                        member_id=MemberId(f"{name}-1"),
                        instance_id=name,
                        metadata=codec.encode_metadata(replace(state, version=protocol.version)),
                    )
                    for name, state in zip(("w1", "w2"), states, strict=True)
                ),
                generation=5,
                last=two_workers(4),
                protocol=protocol,
            )
        )
        for protocol, codec in LEARNING.items()
    ]
    first, second = map(record_of, answers)
    assert first == second
    assert (first.protocol, first.learns) == (SubProtocol.EXTENSIBLE, True)
    assert {v4.decode_assignment(data).version for data in answers[1].assignments.values()} == {4}


@pytest.mark.parametrize(("said", "epoch"), [(HIGHEST - 1, HIGHEST), (HIGHEST, 5), (2**63 - 1, 5)])
def test_an_epoch_that_no_member_can_have_counted_up_to_is_not_believed(said: int, epoch: int) -> None:
    """After the highest possible one, none could follow."""
    members = extensible("w1", 4), extensible("w2", said)
    answer = lead(call(*members, generation=5, last=two_workers(4), protocol=SubProtocol.EXTENSIBLE))
    assert record_of(answer).epoch == epoch


def test_the_same_round_computed_again_keeps_its_epoch() -> None:
    last = two_workers(4)
    members = extensible("w1", 4), extensible("w2", 8)
    again = call(*members, generation=4, last=last, leader=last.leader_member, protocol=SubProtocol.EXTENSIBLE)
    assert record_of(lead(again)).epoch == last.epoch
