"""What a code means in any of its forms, and what the check of entries finds."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from jumar.advise.doctor.entries import Signature
from jumar.advise.doctor.entries.check import check_entries, ordinary_lines, slow_line
from jumar.advise.doctor.entries.codes import code_names
from jumar.advise.doctor.entries.explain import explain
from jumar.advise.doctor.entries.installed import built_in
from jumar.advise.doctor.entries.store import built_in_errors

TABLE = built_in_errors()
GOOD = Signature(
    name="own", kind="message", pattern=r"quota of \w+ is used up", needle="quota of ", title="T", cause="C.",
    action="Do it.", source="s", example="quota of vision is used up",
)  # fmt: skip


def first_source(text: str) -> str:
    return explain(text, TABLE).entries[0].signature.name


def test_a_code_a_number_its_hexadecimal_form_and_its_name_mean_the_same() -> None:
    answers = [explain(text, TABLE) for text in ("507018", "0x7bc8a", "0X7BC8A", "ACL_ERROR_RT_AICPU_EXCEPTION")]
    assert len({answer.entries[0].signature.name for answer in answers}) == 1
    assert {answer.name for answer in answers} == {"ACL_ERROR_RT_AICPU_EXCEPTION"}
    assert [answer.read_as for answer in answers] == ["", "507018", "507018", "507018"]


@pytest.mark.parametrize("text", ["EI0006", "ei0006", " EI0006: ", "EI0006: [PID: 1] Getting socket times out."])
def test_a_vendors_code_is_explained_in_any_form(text: str) -> None:
    assert first_source(text) == first_source("EI0006")


def test_a_line_that_is_pasted_is_read_like_a_log() -> None:
    names = [one.signature.name for one in explain("foo\nRuntimeError: error code is 507018\nEI0006: x", TABLE).entries]
    assert first_source("507018") in names
    assert first_source("EI0006") in names


def test_a_code_within_words_is_found_where_no_entry_fits_the_words() -> None:
    assert explain("what is 507018 about", TABLE).entries[0].code == "507018"


def test_an_entry_is_found_by_its_name_and_shown_once() -> None:
    for signature in built_in()[:20]:
        found = [one.signature.name for one in explain(signature.name, TABLE).entries]
        assert found.count(signature.name) == 1


def test_what_is_unknown_has_near_names_or_none() -> None:
    name = built_in()[0].name
    assert explain("no such thing at all", TABLE).entries == ()
    assert name in explain(name + "x", TABLE).near or explain(name + "x", TABLE).entries


def test_names_of_return_codes_have_six_digits_each() -> None:
    assert all(len(number) == 6 and number.isdigit() for number in code_names().values())


def test_the_entries_of_jumar_pass_their_own_check() -> None:
    assert check_entries(built_in()) == ()


def broken(**change: object) -> list[str]:
    return [fault.rule for fault in check_entries([replace(GOOD, **change)])]  # type: ignore[arg-type]


def test_a_good_entry_has_no_fault() -> None:
    assert broken() == []


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"example": "quota of vision is left"}, "it recognises its own example"),
        ({"needle": "quotas"}, "its needle stands in its example"),
        ({"over": ("nobody",)}, "`over` names entries that are there"),
        ({"pattern": r"(\w+\s?)+ of \w+ is used up"}, "its pattern is fast on every line"),
        ({"pattern": "loss", "needle": "loss", "example": "loss"}, "it recognises no ordinary line"),
        ({"cause": "Not known yet."}, "cause and action are filled in"),
    ],
)
def test_a_faulty_entry_is_told_with_its_rule(change: dict[str, object], rule: str) -> None:
    assert rule in broken(**change)


def test_two_entries_of_one_name_are_a_fault_of_both() -> None:
    assert [fault.rule for fault in check_entries([GOOD, GOOD])] == ["its name is its own"] * 2


def test_a_pattern_that_explodes_is_found_within_seconds() -> None:
    start = time.monotonic()
    assert slow_line(r"^(a+)+$")
    assert slow_line(r"(x|\d+)*y")
    assert time.monotonic() - start < 20


def test_harmless_entries_may_recognise_ordinary_lines() -> None:
    assert broken(role="harmless", pattern="loss", needle="loss", example="loss") == []


def test_ordinary_lines_are_many_and_each_once() -> None:
    assert len(ordinary_lines()) > 80
    assert len(set(ordinary_lines())) == len(ordinary_lines())
