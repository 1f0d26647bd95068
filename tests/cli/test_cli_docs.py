"""`jumar docs`: the guides in the terminal, by their names."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from jumar.base.errors import InputError
from jumar.base.text.language import in_language
from jumar.cli.main import main
from jumar.show.pages.guides.shelf import folder, guide, topics

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["compare", "guide-compare", "docs/guide-compare.md", "Guide-Compare"])
def test_a_guide_is_found_by_any_of_its_names(name: str) -> None:
    assert guide(name).path.name == "guide-compare.md"


def test_a_wrong_name_is_answered_with_near_ones() -> None:
    with pytest.raises(InputError, match=r"Did you mean .*compare"):
        guide("comparr")


def test_the_list_names_every_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "--json"]) == 0
    names = {one["name"] for one in json.loads(capsys.readouterr().out)["topics"]}
    assert {file.stem for file in folder().glob("*.md")} - {"README"} <= names
    assert main(["docs"]) == 0
    assert "guide-compare" in capsys.readouterr().out


def test_in_a_pipe_a_guide_is_its_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "noise-floor"]) == 0
    assert capsys.readouterr().out.rstrip() == guide("noise-floor").path.read_text("utf-8").rstrip()


def test_every_guide_that_a_message_names_is_there() -> None:
    named = set()
    for file in (ROOT / "src" / "jumar").rglob("*.py"):
        named |= set(re.findall(r"jumar docs ([a-z][a-z-]+)", file.read_text("utf-8")))
    assert len(named) > 10
    assert {name for name in named - {"compare", "emulator-numerics"} if name not in topics()} == set()


def test_a_chinese_reader_gets_the_chinese_page_where_there_is_one() -> None:
    chinese = folder() / "zh" / "guide-compare.md"
    with in_language("zh"):
        assert guide("compare").path == (chinese if chinese.is_file() else folder() / "guide-compare.md")
