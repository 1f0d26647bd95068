"""The rules' pages under docs are the ones the rules say."""

from __future__ import annotations

from pathlib import Path

from jumar.cli.rule import all_rules
from jumar.cli.rule_docs import pages, write

DOCS = Path(__file__).parents[2] / "docs" / "rules"


def test_every_rule_has_a_page_and_a_line_in_the_index() -> None:
    found = pages(all_rules())
    assert len(found) == len(all_rules()) + 1
    assert all(f"]({rule.code}.md)" in found["README.md"] for rule in all_rules())


def test_the_pages_under_docs_are_up_to_date() -> None:
    shipped = {path.name: path.read_text(encoding="utf-8") for path in DOCS.glob("*.md")}
    assert shipped == pages(all_rules()), "run: python -m jumar.cli.rule_docs docs/rules"


def test_writing_twice_changes_nothing_and_stale_pages_go(tmp_path: Path) -> None:
    (tmp_path / "JM999.md").write_text("old")
    rules = all_rules()
    assert len(write(tmp_path, rules)) == len(rules) + 2
    assert write(tmp_path, rules) == []
    assert not (tmp_path / "JM999.md").exists()
