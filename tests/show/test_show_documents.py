from __future__ import annotations

import json
import math
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar import __version__
from jumar.base.findings import Finding, Severity
from jumar.show import findings_document, json_text, page_json
from jumar.show.blocks.documents import BLOCK_KINDS, plain
from jumar.show.blocks.page import (
    Action,
    BarChart,
    Block,
    Column,
    FindingList,
    Heat,
    KeyValues,
    LineChart,
    Page,
    Section,
    Series,
    Table,
    Verdict,
)
from jumar.show.blocks.pictures import Counts, Histogram, Outline, OutlineEntry, Question, Questions
from jumar.show.blocks.profiles import PROFILE_KINDS, Dot, Flame, FlameNode, Roofline

KINDS = BLOCK_KINDS | PROFILE_KINDS
CLASSES = {kind: block for block, kind in KINDS.items()}


def block_from_json(data: dict[str, Any]) -> Block:
    fields_ = {key: value for key, value in data.items() if key != "kind"}
    match CLASSES[data["kind"]]:
        case block if block is Table:
            fields_["columns"] = [Column(**column) for column in fields_["columns"]]
        case block if block is LineChart:
            fields_["series"] = [Series(**series) for series in fields_["series"]]
        case block if block is FindingList:
            fields_["findings"] = [Finding.from_json(finding) for finding in fields_["findings"]]
        case block if block in (BarChart, KeyValues, Heat):
            fields_ = {key: [tuple(item) for item in v] if isinstance(v, list) else v for key, v in fields_.items()}
        case block if block is Outline:
            fields_["entries"] = [OutlineEntry(**entry) for entry in fields_["entries"]]
        case block if block is Histogram:
            fields_["series"] = [Counts(**one) for one in fields_["series"]]
        case block if block is Flame:
            fields_["nodes"] = [FlameNode(**one) for one in fields_["nodes"]]
        case block if block is Roofline:
            fields_["dots"] = [Dot(**one) for one in fields_["dots"]]
        case block if block is Questions:
            fields_["questions"] = [Question(**one) for one in fields_["questions"]]
        case block:
            pass
    return block(**fields_)


def page_from_json(data: dict[str, Any]) -> Page:
    return Page(
        title=data["title"],
        verdict=Verdict(**data["verdict"]),
        actions=[Action(**action) for action in data["actions"]],
        sections=[
            Section(
                title=section["title"],
                collapsed=section["collapsed"],
                blocks=[block_from_json(block) for block in section["blocks"]],
            )
            for section in data["sections"]
        ],
        footer=data["footer"],
    )


def test_a_page_in_json_is_strict_and_nothing_of_the_page_is_lost(full_page: Page) -> None:
    document = page_json(full_page)
    read = json.loads(json_text(document), parse_constant=pytest.fail)
    assert read == document
    assert page_json(page_from_json(read)) == document


def test_every_block_of_the_full_page_has_its_kind(full_page: Page) -> None:
    document = page_json(full_page)
    kinds = {block["kind"] for section in document["sections"] for block in section["blocks"]}
    assert kinds == set(KINDS.values())


def test_no_field_of_a_page_is_left_out(full_page: Page) -> None:
    document = page_json(full_page)
    assert set(document) == {"schema_version", "jumar_version"} | {field.name for field in fields(Page)}
    for section, data in zip(full_page.sections, document["sections"], strict=True):
        assert set(data) == {field.name for field in fields(Section)}
        for block, block_data in zip(section.blocks, data["blocks"], strict=True):
            assert set(block_data) == {"kind"} | {field.name for field in fields(block)}


def test_nan_and_inf_are_told_apart_from_no_value(full_page: Page) -> None:
    chart = page_json(full_page)["sections"][0]["blocks"][0]
    assert chart["series"][1]["y"] == [2.0, None, "NaN", "Infinity"]


def test_a_findings_document_names_its_versions_and_reads_back(findings: list[Finding]) -> None:
    document = json.loads(json_text(findings_document(findings, target="npu", losses=[(0, math.nan)])))
    assert (document["schema_version"], document["jumar_version"]) == (1, __version__)
    assert (document["target"], document["losses"]) == ("npu", [[0, "NaN"]])
    assert [Finding.from_json(data).code for data in document["findings"]] == [one.code for one in findings]
    assert document["findings"][2]["evidence"]["loss"] == "NaN"


def test_an_extra_key_cannot_replace_one_of_the_document() -> None:
    with pytest.raises(ValueError, match="jumar_version"):
        findings_document([], jumar_version="2")


def test_arrays_enums_paths_and_sets_become_plain_values() -> None:
    values = {"a": np.float32(0.5), "b": np.int64(3), "c": np.arange(2), "d": Path("x") / "y", "e": {2, 1}}
    assert plain(values | {"f": Severity.ERROR}) == {
        "a": 0.5,
        "b": 3,
        "c": [0, 1],
        "d": "x/y",
        "e": [1, 2],
        "f": "error",
    }


def test_a_value_without_a_json_form_is_refused() -> None:
    with pytest.raises(TypeError, match="object"):
        plain({"a": [object()]})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(json_values)
def test_any_evidence_becomes_strict_json(value: Any) -> None:
    document = plain(value)
    assert json.loads(json.dumps(document, allow_nan=False)) == document
