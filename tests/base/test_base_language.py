"""Messages in the user's language: which one is chosen, how texts and templates are found, what stays English."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.base.text.language import chosen, in_language, translate, use
from jumar.base.text.language.catalogue import Catalogue, read_catalogue

ROOT = Path(__file__).parents[2]
ZH = ROOT / "src" / "jumar" / "locale" / "zh" / "LC_MESSAGES"


def builder() -> dict[str, Any]:
    """Return what scripts/build_catalogue.py defines."""
    pytest.importorskip("babel")
    return runpy.run_path(str(ROOT / "scripts" / "build_catalogue.py"))


@pytest.mark.parametrize(
    ("environ", "language"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "en_US.UTF-8", "LC_ALL": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_MESSAGES": "en_GB.UTF-8"}, "en"),
        ({"LANG": "zh_CN.UTF-8", "JUMAR_LANG": "en"}, "en"),
        ({"LANG": "C.UTF-8", "JUMAR_LANG": "zh-CN"}, "zh"),
        ({"LC_ALL": "C", "LANGUAGE": "zh_CN"}, "en"),
        ({"LANG": "de_DE.UTF-8", "LANGUAGE": "zh:en"}, "zh"),
        ({"LANG": "zhuang"}, "en"),
    ],
)
def test_the_language_is_that_of_the_variable_else_of_the_locale(environ: dict[str, str], language: str) -> None:
    assert chosen(environ) == language


def test_a_configured_language_counts_more_than_the_locale_and_less_than_the_variable() -> None:
    use("zh")
    try:
        assert chosen({"LANG": "en_US.UTF-8"}) == "zh"
        assert chosen({"JUMAR_LANG": "en"}) == "en"
    finally:
        use(None)


CATALOGUE = Catalogue(
    {
        "Nothing found.": "没有发现问题。",
        "{} of {} ranks failed.": "{1} 个 rank 中有 {0} 个失败。",
        "{} ranks": "{} 个 rank",
        "Looked at {}.": "查看了 {}。",
        "Set {a}.": "设置 {a}。",
    }
)


@pytest.mark.parametrize(
    ("text", "translated"),
    [
        ("Nothing found.", "没有发现问题。"),
        ("2 of 8 ranks failed.", "8 个 rank 中有 2 个失败。"),
        ("Looked at 3 ranks.", "查看了 3 个 rank。"),
        ("Nothing found. Something else.", "没有发现问题。Something else."),
        ("Something else.", "Something else."),
        ("Set {a}.", "设置 {a}。"),
        ("", ""),
    ],
)
def test_texts_and_templates_are_translated_and_the_rest_stays(text: str, translated: str) -> None:
    assert CATALOGUE.translate(text) == translated


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_value_stands_in_the_translation_as_it_was(first: str, second: str) -> None:
    catalogue = Catalogue({"<{}|{}>": "«{1}¦{0}»"})
    text = f"<{first}|{second}>"
    found = catalogue.translate(text)
    if first and second and "|" not in first:
        assert found == f"«{second}¦{first}»"


@given(st.text())
def test_no_text_is_an_error(text: str) -> None:
    assert isinstance(read_catalogue("zh").translate(text), str)


def test_english_is_left_alone_and_a_missing_catalogue_is_empty() -> None:
    with in_language("en"):
        assert translate("Fine") == "Fine"
    with in_language("zh"):
        assert translate("Fine") == "正常"
    assert read_catalogue("xx").translate("Fine") == "Fine"


def test_every_text_of_the_catalogue_stands_in_the_sources_and_has_as_many_values() -> None:
    assert builder()["complaints"]("zh") == []


def test_the_compiled_catalogue_is_that_of_the_file() -> None:
    built = builder()["build"]("zh")
    assert (ZH / "jumar.mo").read_bytes() == built


def test_chinese_has_full_width_punctuation_and_a_space_beside_latin_letters() -> None:
    text = (ZH / "jumar.po").read_text("utf-8")
    targets = "\n".join(re.findall(r'^msgstr "(.*)"$', text, re.MULTILINE))
    assert re.findall(r"[\u4e00-\u9fff][,;:?!](?:\s|$)", targets) == []
    assert re.findall(r"[\u4e00-\u9fff][A-Za-z0-9]|[A-Za-z0-9][\u4e00-\u9fff]", targets) == []
