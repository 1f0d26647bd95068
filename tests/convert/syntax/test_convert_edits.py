"""Edits compose, or are refused as a whole."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jumar.convert.model.edits import EditSet, Replacement, apply

TEXT = "abcdefghij"


def result(*edits: tuple[Replacement, ...]) -> str:
    chosen = EditSet()
    for group in edits:
        chosen.accept(group)
    return chosen.apply(TEXT)


def test_edits_are_made_in_the_order_of_the_text() -> None:
    assert result((Replacement(8, 9, "I"), Replacement(1, 2, "B"))) == "aBcdefghIj"


def test_insertions_stand_around_a_replacement_at_the_same_place() -> None:
    assert result((Replacement(2, 4, "X"),), (Replacement(2, 2, "<"), Replacement(4, 4, ">"))) == "ab<X>efghij"


def test_insertions_at_one_place_keep_the_order_they_were_made_in() -> None:
    assert result((Replacement(3, 3, "1"), Replacement(3, 3, "2")), (Replacement(3, 3, "3"),)) == "abc123defghij"


def test_the_same_edit_is_made_once() -> None:
    assert result((Replacement(0, 1, "A"),), (Replacement(0, 1, "A"),)) == "Abcdefghij"


def test_a_group_with_one_conflict_is_refused_whole() -> None:
    assert result((Replacement(2, 5, "X"),), (Replacement(8, 9, "I"), Replacement(4, 6, "Y"))) == "abXfghij"


def test_an_insertion_inside_a_replacement_is_refused() -> None:
    assert result((Replacement(2, 5, "X"),), (Replacement(3, 3, "Y"),)) == "abXfghij"


@given(st.lists(st.tuples(st.integers(0, 10), st.integers(0, 4), st.text("XYZ", max_size=2)), max_size=8))
def test_accepted_edits_never_overlap(edits: list[tuple[int, int, str]]) -> None:
    chosen = EditSet()
    kept: list[Replacement] = []
    for start, size, text in edits:
        edit = Replacement(start, min(10, start + size), text)
        if chosen.accept([edit]) and edit not in kept:
            kept.append(edit)
    assert not any(a.overlaps(b) for a in kept for b in kept if a is not b)
    removed = sum(edit.end - edit.start for edit in kept)
    assert len(chosen.apply(TEXT)) == len(TEXT) - removed + sum(len(edit.text) for edit in kept)


def test_a_part_of_the_text_can_be_edited_alone() -> None:
    assert apply("cdef", [Replacement(3, 5, "X")], offset=2) == "cXf"
