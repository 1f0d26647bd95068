"""An entry is proposed from a line: it recognises the line and its variants, and no ordinary line."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.advise.doctor.entries import Table, parse_entries
from jumar.advise.doctor.entries.check import ordinary_lines, slow_line
from jumar.advise.doctor.entries.learn import Proposal, propose
from jumar.advise.doctor.entries.own import completed
from jumar.base.errors import InputError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LINES = [
    "AcmeError: device 3 of 8 lost its link to 10.1.2.3:5000 after 17.5 s",
    "[rank3]: RuntimeError: cannot map /home/anna/run/data.bin into shared segment 'weights_7'",
    "2024-11-28 11:59:30,645 ERROR scheduler.py:88] job 4711 was evicted by node gpu17: quota exceeded",
    "[ERROR] FOO(160809,python3):2024-02-02-22:23:56.475.679 [x.cc:1408]12828 Bar: handle 0x7fe7649556d0 is gone",
    "fatal: url https://internal.example.org/api?token=abc gave status 503 for anna@corp.example.org",
]


def table_of(proposal: Proposal) -> Table:
    document = tomllib.loads(proposal.to_toml())
    return Table(parse_entries(completed(document, "test")))


def recognises(table: Table, line: str) -> bool:
    return any(match.signature for match in table.searcher(line.encode()).search(line))


@pytest.mark.parametrize("line", LINES)
def test_a_proposal_recognises_its_line_and_its_example_and_no_ordinary_line(line: str) -> None:
    proposal = propose(line, ordinary=ordinary_lines())
    table = table_of(proposal)
    assert recognises(table, line)
    assert recognises(table, proposal.example)
    assert not any(recognises(table, one) for one in ordinary_lines())
    assert slow_line(proposal.pattern, proposal.example) == ""


@pytest.mark.parametrize("line", LINES)
def test_the_example_has_no_address_and_no_folder(line: str) -> None:
    example = propose(line).example
    assert not re.search(r"10\.1\.2\.3|anna|internal\.example|corp\.example", example)


WORDS = st.text(st.characters(codec="ascii", categories=["Ll"]), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None)
@given(
    numbers=st.lists(st.integers(0, 10**9), min_size=3, max_size=3),
    path=st.lists(WORDS, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts)),
    name=st.text(st.characters(codec="utf-8", exclude_characters="'\n\r", exclude_categories=["Cs", "Cc"]), min_size=1,
                 max_size=20),
    address=st.integers(0, 2**48),
    hour=st.integers(0, 23),
)  # fmt: skip
def test_variants_in_numbers_paths_names_addresses_and_times_are_recognised(
    numbers: list[int], path: str, name: str, address: int, hour: int
) -> None:
    form = "{hour:02d}:10:11 worker {0} lost tensor '{name}' of {1} bytes in {path} at {address:#x}, retry {2}"
    table = table_of(propose(form.format(1, 2, 3, hour=1, name="w", path="/a/b", address=255)))
    assert recognises(table, form.format(*numbers, hour=hour, name=name, path=path, address=address))


@settings(max_examples=80, deadline=None)
@given(st.text(max_size=300))
def test_any_line_gives_an_entry_that_recognises_it_or_one_sentence(line: str) -> None:
    try:
        proposal = propose(line)
    except InputError:
        return
    assert recognises(table_of(proposal), line.rstrip("\r\n"))


def test_a_line_of_numbers_only_is_refused() -> None:
    with pytest.raises(InputError, match="no words of its own"):
        propose("12 34 56 0x7f")


def test_a_line_like_an_ordinary_one_is_refused() -> None:
    with pytest.raises(InputError, match="an ordinary line"):
        propose("epoch 9 step 7, loss is 3.4", ordinary=["epoch 1 step 1875, loss is 0.107002"])


def test_a_vendors_code_becomes_an_entry_of_the_code() -> None:
    proposal = propose("EX1234: [PID: 1] something new", code="EX1234")
    assert (proposal.kind, proposal.pattern, proposal.needle) == ("code", "EX1234", "")
    assert recognises(table_of(proposal), "EX1234: [PID: 99] other words")


def test_a_file_of_toml_keeps_any_text(tmp_path: Path) -> None:
    line = 'BadError: "quoted" \\ back\\slash \x7f and ünïcode failed 3 times'
    assert tomllib.loads(propose(line).to_toml())["errors"][0]["pattern"]
