"""The table of errors: every entry recognises its own example, and only complete entries are taken."""

from __future__ import annotations

import copy

import pytest

from jumar.advise.doctor.entries import documents, known_errors, parse_table
from jumar.advise.doctor.entries.codes import CODE, codes_in
from jumar.advise.doctor.entries.table import Match

DOCUMENTS = list(documents())
DOCUMENT = next(one for one in DOCUMENTS if any(entry["kind"] == "message" for entry in one["errors"]))
TABLE = known_errors()


def search(line: str) -> list[Match]:
    return list(TABLE.searcher(line.encode()).search(line))


@pytest.mark.parametrize("signature", TABLE.signatures, ids=lambda signature: signature.name)
def test_every_entry_recognises_its_example(signature):
    found = [match.signature.name for match in search(signature.example) if match.signature]
    assert signature.name in found


@pytest.mark.parametrize("signature", TABLE.signatures, ids=lambda signature: signature.name)
def test_every_entry_says_cause_action_and_source_in_sentences(signature):
    assert signature.title
    assert not signature.title.endswith(".")
    assert signature.cause.endswith(".")
    assert len(signature.action) > 5
    assert any(signature.source in document["sources"].values() for document in DOCUMENTS)


def test_names_are_unique_and_sources_are_used():
    names = [entry["name"] for document in DOCUMENTS for entry in document["errors"]]
    assert len(names) == len(set(names))
    for document in DOCUMENTS:
        assert {entry["source"] for entry in document["errors"]} == set(document["sources"])


def test_an_entry_leads_only_over_entries_that_are_there():
    names = {entry.name for entry in TABLE.signatures}
    assert {name for entry in TABLE.signatures for name in entry.over} <= names


@pytest.mark.parametrize(
    "line",
    [
        "epoch 3 step 100107 loss 0.207001 lr 1e-3",
        "saved result 507015 to disk",
        "model E10001 accuracy 0.9",
        "error rate 0.1, no error",
        "sha256 E19999abc: ok",
        "2024-11-28 11:59:30,645 INFO ResNet-50 EX1234",
        "Initialize weights with kaiming_normal_",
    ],
)
def test_ordinary_lines_are_not_errors(line):
    assert search(line) == []


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("EI0002: [PID: 1] x", ["EI0002"]),
        ("detail:EZ9999: Inner Error!", ["inner-error"]),
        ("EH9999: Inner Error!", ["inner-error"]),
        ("E19999: Inner Error, Please contact support engineer!", ["inner-error"]),
        ("E10099: [PID: 1] y", ["E10-atc"]),
        ("x ERR02200 DIST call hccl api failed.", ["ERR..200"]),
        ("error code is 507015 and error code:107002", ["acl-aicore-exception", "acl-no-context"]),
        ("hcclRet[4], ret[507048]", ["acl-wait-timeout", "hccl-result-internal"]),
    ],
)
def test_codes_are_looked_up(line, names):
    assert [match.signature.name for match in search(line) if match.signature] == names


def test_a_code_that_the_table_lacks_is_found_without_a_signature():
    assert search("EX1234: [PID: 1] something new") == [Match(signature=None, code="EX1234")]


def test_a_code_twice_in_a_line_counts_once():
    assert codes_in("EZ9999: Inner Error! EZ9999: [PID: 1]") == ["EZ9999"]
    assert CODE.search("XEZ9999: no word of its own") is None


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "nonsense"},
        {"role": "culprit"},
        {"needle": ""},
        {"source": "a rumour"},
        {"severity": "deadly"},
        {"extra": "field"},
    ],
)
def test_a_malformed_entry_is_refused(change):
    document = copy.deepcopy(DOCUMENT)
    message = next(entry for entry in document["errors"] if entry["kind"] == "message")
    message.update(change)
    with pytest.raises((ValueError, KeyError, TypeError)):
        parse_table(document)
