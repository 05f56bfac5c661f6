"""Which assignor a declarative group uses, and which member runs it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider.group.declarative.coordinator.assignors.selection import NobodyFits, Selected, select, unsupported
from airflow_provider.group.declarative.protocol.model import Member
from airflow_provider.group.declarative.protocol.wire.parts import Assignor
from airflow_provider.values.model import MemberId

patient = settings(deadline=None)
A, B, C = map(MemberId, "ABC")


def member(**ranges: tuple[int, int]) -> Member:
    """With these assignors, the preferred one first."""
    return Member(
        rebalance_timeout_ms=60_000,
        client_assignors=tuple(
            Assignor(name=name, minimum_version=lowest, maximum_version=highest, version=lowest)
            for name, (lowest, highest) in ranges.items()
        ),
    )


THE_SEEDS = {A: member(c=(1, 5)), B: member(c=(3, 4)), C: member(c=(2, 4))}


class TestWhoComputes:
    def test_who_reads_the_versions_of_all(self) -> None:
        assert select(THE_SEEDS) == select(THE_SEEDS, last=B, failed={A}) == Selected("c", A)

    def test_who_computed_last_does_it_again(self) -> None:
        alike = dict.fromkeys((A, B, C), member(c=(1, 2)))
        assert select(alike) == Selected("c", A)
        assert select(alike, last=B) == Selected("c", B)
        assert select(alike, last=MemberId("gone")) == Selected("c", A)

    def test_who_has_failed_is_passed_over_while_somebody_else_can(self) -> None:
        alike = dict.fromkeys((A, B, C), member(c=(1, 2)))
        assert select(alike, last=A, failed={A}) == Selected("c", B)
        assert select(alike, last=A, failed={A, B, C}) == Selected("c", A)

    def test_nobody_fits_and_who_they_are(self) -> None:
        narrow = {A: member(c=(1, 3)), B: member(c=(2, 5)), C: member(c=(2, 5))}
        assert select(narrow) == NobodyFits("no worker reads versions 1 to 5 of assignor 'c': A 1 to 3, B, C 2 to 5")

    def test_many_are_not_all_named(self) -> None:
        narrow = {MemberId(f"w{number}"): member(c=(number % 2, 5 + number % 2)) for number in range(20)}
        nobody = select(narrow)
        assert isinstance(nobody, NobodyFits)
        assert nobody.reason.endswith("w0, w2, w4 and 7 more 0 to 5, w1, w3, w5 and 7 more 1 to 6")


class TestWhichAssignor:
    def test_the_order_of_the_lists_is_honoured(self) -> None:
        both = member(cooperative=(1, 2), eager=(0, 0))
        reverse = member(eager=(0, 0), cooperative=(1, 2))
        assert select({A: both, B: both, C: reverse}) == Selected("cooperative", A)
        assert select({A: reverse, B: reverse, C: both}) == Selected("eager", A)
        assert select({A: reverse, B: both}) == Selected("cooperative", A), "a tie goes by name"

    def test_only_what_all_have(self) -> None:
        both = member(cooperative=(1, 2), eager=(0, 0))
        assert select({A: both, B: both, C: member(eager=(0, 0))}) == Selected("eager", A)
        assert select({A: both, B: member(other=(0, 0))}) == NobodyFits(
            "no assignor is supported by all workers: A has cooperative, eager; B has other"
        )

    def test_what_nobody_reads_all_versions_of_is_no_candidate(self) -> None:
        narrow = {A: member(c=(1, 3), e=(0, 0)), B: member(c=(2, 5), e=(0, 0))}
        assert select(narrow) == Selected("e", A)


class TestUnsupported:
    def test_ranges_must_overlap(self) -> None:
        assert unsupported(THE_SEEDS, MemberId("D"), member(c=(4, 9))) is None
        assert unsupported(THE_SEEDS, MemberId("D"), member(c=(5, 9))) == (
            "worker D has no assignor in common with all others: worker B reads versions 3 to 4 of 'c', and not 5 to 9"
        )

    def test_one_of_its_assignors_is_enough(self) -> None:
        both = member(c=(1, 2), e=(0, 0))
        assert unsupported({A: both}, B, member(c=(3, 4), e=(0, 0))) is None
        assert unsupported({A: both}, B, member(x=(0, 0))) == (
            "worker B has no assignor in common with all others: worker A does not have 'x'"
        )

    def test_what_it_said_before_does_not_count(self) -> None:
        assert unsupported({A: member(c=(1, 2))}, A, member(e=(0, 0))) is None
        assert unsupported({}, A, member(e=(0, 0))) is None


RANGES = st.tuples(st.integers(-1, 6), st.integers(0, 6)).map(lambda pair: (pair[0], max(pair)))
MEMBERS = st.dictionaries(st.sampled_from("abc"), RANGES, min_size=1).map(lambda ranges: member(**ranges))
GROUPS = st.dictionaries(st.sampled_from("ABCDEF").map(MemberId), MEMBERS, min_size=1)


@patient
@given(
    members=GROUPS,
    last=st.sampled_from("ABCDEFG").map(MemberId),
    failed=st.sets(st.sampled_from("ABCDEF").map(MemberId)),
)
def test_the_chosen_one_reads_all_versions(
    members: dict[MemberId, Member], last: MemberId, failed: set[MemberId]
) -> None:
    ranges = {
        (name, one): (assignor.minimum_version, assignor.maximum_version)
        for one, of_it in members.items()
        for assignor in of_it.client_assignors
        for name in [assignor.name]
    }

    def reads_all(name: str, one: MemberId) -> bool:
        return all(
            (name, other) in ranges
            and ranges[name, one][0] <= ranges[name, other][0]
            and ranges[name, other][1] <= ranges[name, one][1]
            for other in members
        )

    able = {(name, one) for name, one in ranges if reads_all(name, one)}
    selected = select(members, last=last, failed=failed)
    if isinstance(selected, NobodyFits):
        assert not able
        assert all(one in selected.reason for one in members) or len(members) > 3
        return
    name, chosen = selected.assignor, selected.member_id
    assert (name, chosen) in able
    assert chosen not in failed or all(one in failed for other, one in able if other == name)
    assert chosen == last or (name, last) not in able or last in failed


@patient
@given(members=GROUPS, newcomer=MEMBERS)
def test_who_is_let_in_overlaps_with_everybody(members: dict[MemberId, Member], newcomer: Member) -> None:
    def overlap(one: Assignor, other: Assignor) -> bool:
        return one.name == other.name and any(
            one.minimum_version <= version <= one.maximum_version
            for version in range(other.minimum_version, other.maximum_version + 1)
        )

    fits = any(
        all(any(overlap(one, other) for other in of_it.client_assignors) for of_it in members.values())
        for one in newcomer.client_assignors
    )
    assert (unsupported(members, MemberId("new"), newcomer) is None) == fits
