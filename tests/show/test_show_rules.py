"""The rules' pages under docs are the ones the rules say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from jumar.base.rules import all_rules
from jumar.show.pages.rules import pages

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "rules"
SCRIPT = ROOT / "scripts" / "build_rule_pages.py"


def test_every_rule_has_a_page_and_a_line_in_the_index() -> None:
    found = pages(all_rules())
    assert len(found) == len(all_rules()) + 1
    assert all(f"]({rule.code}.md)" in found["README.md"] for rule in all_rules())


def test_the_pages_under_docs_are_up_to_date() -> None:
    shipped = {path.name: path.read_text(encoding="utf-8") for path in DOCS.glob("*.md")}
    assert shipped == pages(all_rules()), "run: python scripts/build_rule_pages.py docs/rules"


def test_writing_twice_changes_nothing_and_stale_pages_go(tmp_path: Path) -> None:
    (tmp_path / "JM999.md").write_text("old")
    said = [
        subprocess.run([sys.executable, SCRIPT, tmp_path], check=True, capture_output=True, text=True).stdout
        for _ in range(2)
    ]
    assert [line.split()[0] for line in said] == [str(len(all_rules()) + 2), "0"]
    assert not (tmp_path / "JM999.md").exists()
