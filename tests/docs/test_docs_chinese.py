"""The Chinese pages keep step with the English ones: structure, code, names, figures, links, pictures and tables."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

import pytest
from chinese_pages import (
    DRAWN,
    GLOSSARY,
    HAN,
    HERE,
    MEASURED,
    ROOT,
    SPAN,
    TRANSLATED,
    anchors,
    bare,
    blocks,
    chinese,
    counted,
    english,
    is_same_code,
    kinds,
    measured,
    places,
    prose,
    text_with_stars,
    words,
)


@pytest.mark.parametrize("page", TRANSLATED)
def test_an_english_page_of_the_list_has_its_chinese_one(page: str) -> None:
    assert (ROOT / TRANSLATED[page]).is_file()


@pytest.mark.parametrize("page", HERE)
def test_a_chinese_page_leads_to_the_english_one_under_its_title(page: str) -> None:
    lines = (ROOT / TRANSLATED[page]).read_text("utf-8").splitlines()
    back = posixpath.relpath(page, posixpath.dirname(TRANSLATED[page]) or ".")
    assert lines[0].startswith("# ")
    assert f"[English]({back})" in "\n".join(lines[:6])


def test_the_english_readme_leads_to_the_chinese_one() -> None:
    assert "[中文](README.zh-CN.md)" in english("README.md")


@pytest.mark.parametrize("page", HERE)
def test_headings_paragraphs_items_and_rows_stand_in_the_same_order(page: str) -> None:
    assert kinds(chinese(page)) == kinds(english(page).replace("[中文](README.zh-CN.md) · ", ""))


@pytest.mark.parametrize("page", HERE)
def test_code_is_the_same_but_for_comments(page: str) -> None:
    ours, theirs = blocks(chinese(page)), blocks(english(page))
    assert [len(block) for block in ours] == [len(block) for block in theirs]
    for own, other in zip(ours, theirs, strict=True):
        if other[1].startswith(DRAWN):
            assert counted("\n".join(own[1:-1])) == counted("\n".join(other[1:-1]))
            assert re.findall(r"JM\d+", str(own)) == re.findall(r"JM\d+", str(other))
            continue
        different = [pair for pair in zip(other, own, strict=True) if not is_same_code(*pair)]
        assert different == []


@pytest.mark.parametrize("page", HERE)
def test_names_in_code_and_codes_of_rules_are_the_same(page: str) -> None:
    def names(text: str) -> set[str]:
        text = prose(text)
        return {re.sub(r"\s+", " ", span) for span in SPAN.findall(text)} | set(re.findall(r"\bJM\d{3}\b", text))

    assert names(chinese(page)) ^ names(english(page)) == set()


@pytest.mark.parametrize("page", HERE)
def test_every_figure_of_the_english_page_is_in_the_chinese_one(page: str) -> None:
    assert counted(english(page)) - counted(chinese(page)) == set()


@pytest.mark.parametrize("page", HERE)
def test_links_and_pictures_lead_where_the_english_ones_lead(page: str) -> None:
    expected = [place for place in places(page, english(page)) if place != "README.zh-CN.md"]
    assert places(TRANSLATED[page], chinese(page)) == expected


@pytest.mark.parametrize("page", HERE)
def test_the_place_in_a_chinese_page_that_a_link_names_is_there(page: str) -> None:
    for place in places(TRANSLATED[page], chinese(page)):
        path, _, anchor = place.partition("#")
        if anchor and (ROOT / path).is_file():
            assert anchor in anchors((ROOT / path).read_text("utf-8")), place


@pytest.mark.parametrize("page", [*(ROOT / TRANSLATED[page] for page in HERE), GLOSSARY], ids=lambda page: page.name)
def test_chinese_is_set_as_chinese(page: Path) -> None:
    text = bare(page.read_text("utf-8"))
    assert re.findall(f".*[{HAN}][A-Za-z0-9].*|.*[A-Za-z0-9][{HAN}].*", text) == [], "a space between Chinese and Latin"
    assert re.findall(f".*[{HAN}][,;:?!()].*|.*[,;:?!()][{HAN}].*", text) == [], "full-width punctuation"
    bold = re.findall(r"\*\*(.+?)\*\*(.?)", text_with_stars(page))
    assert [words for words, then in bold if words[-1] in "，。：；、）！？”" and re.match(r"\w", then)] == [], (
        "stars show"
    )


@pytest.mark.parametrize("page", HERE)
def test_words_are_those_of_the_glossary(page: str) -> None:
    text = bare(chinese(page))
    avoided = [other for *_, others in words() for other in others.split("、") if other]
    assert len(avoided) >= 20
    assert [word for word in avoided if word in text] == []


def test_a_word_stands_in_the_glossary_once() -> None:
    listed = [one for one, *_ in words()]
    assert sorted(set(listed)) == sorted(listed)


@pytest.mark.parametrize(
    ("one", "own", "same"),
    [
        ("jumar run a.py   # runs it", "jumar run a.py   # 运行", True),
        ("jumar run a.py   # runs it", "jumar run b.py   # 运行", False),
        ("jumar bank list      what is there", "jumar bank list      列出内容", True),
        ("jumar bank list      what is there", "jumar bank show      列出内容", False),
        ("operators    4 run", "算子    4 个", False),
        ("x = 1", "x = 2", False),
    ],
)
def test_only_comments_and_explanations_may_differ(one: str, own: str, same: bool) -> None:
    assert is_same_code(one, own) is same


@pytest.mark.parametrize("page", HERE)
def test_measured_tables_are_those_of_the_english_page(page: str) -> None:
    assert MEASURED.findall(chinese(page)) == measured(english(page)), "run tests/docs/chinese_pages.py"
