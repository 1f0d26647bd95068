"""Write the page of every rule into a folder: `python scripts/build_rule_pages.py docs/rules`.

One page a rule and an index. Pages of rules that are gone are removed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from jumar.base.rules import Rule
from jumar.base.rules.index import built_in
from jumar.show.pages.rules import pages


def write(folder: Path, rules: Iterable[Rule]) -> list[Path]:
    """Write every page into `folder` and remove stale ones. Returns the files that changed."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = pages(rules)
    changed = []
    for name, text in wanted.items():
        path = folder / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(path)
    for path in folder.glob("JM*.md"):
        if path.name not in wanted:
            path.unlink()
            changed.append(path)
    return changed


if __name__ == "__main__":
    sys.stdout.write(f"{len(write(Path(sys.argv[1]), built_in().values()))} pages changed in {sys.argv[1]}\n")
