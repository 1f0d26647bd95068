"""Make `docs/convert-rules.md` and `docs/convert-torch-cuda.md` again.

    python scripts/build_convert_tables.py [--check]

Every "after" in them is what `jumar.convert` really makes of the "before": the example of a rule's page, and a
line that uses a name of `torch.cuda`. `--check` writes nothing and exits 1 when a table is not current.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from convert_tables import cuda_names, rule_table

DOCS = Path(__file__).parents[1] / "docs"
PAGES = {"convert-rules.md": rule_table.page, "convert-torch-cuda.md": cuda_names.page}


def stale(folder: Path = DOCS) -> dict[str, str]:
    """Return the pages that are not current, by file name, with the text they should have."""
    wanted = {name: page() for name, page in PAGES.items()}
    return {
        name: text
        for name, text in wanted.items()
        if not (folder / name).is_file() or (folder / name).read_text(encoding="utf-8") != text
    }


def main() -> int:
    """Write the pages that are not current, or say so."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a page is not current")
    options = parser.parse_args()
    pages = stale()
    for name, text in pages.items():
        sys.stderr.write(f"{name} is not current\n" if options.check else f"{name} written\n")
        if not options.check:
            (DOCS / name).write_text(text, encoding="utf-8")
    return int(options.check and bool(pages))


if __name__ == "__main__":
    sys.exit(main())
