"""Writes docs/variables.md from the table of environment variables: `python scripts/build_variables.py`.

`--check` writes nothing and exits with 1 when the page is out of date.
"""

from __future__ import annotations

import sys
from pathlib import Path

from jumar.advise.doctor.variables import AREAS, Variable, variables

PAGE = Path(__file__).parents[1] / "docs" / "variables.md"
HEAD = """# Environment variables of the vendor's software

Made from `src/jumar/advise/doctor/data/variables.json` by `scripts/build_variables.py`. `jumar doctor` shows those that
are set with their meaning, and reports values that a variable does not take (JM840) and names that are nearly one of
these (JM841). `jumar doctor --explain NAME` prints one. A variable that is not here may still be one of your version.
Jumar's own are in [environment.md](environment.md).
"""


def main() -> int:
    """Write the page, or check it. Returns the exit code."""
    text = page()
    if "--check" in sys.argv[1:]:
        return int(not PAGE.exists() or PAGE.read_text("utf-8") != text)
    PAGE.write_text(text, "utf-8")
    sys.stdout.write(f"{PAGE}\n")
    return 0


def page() -> str:
    """Return the text of the page."""
    parts = [HEAD]
    sources = list(dict.fromkeys(one.source for one in variables().values()))
    for area, title in AREAS.items():
        rows = [_row(one, sources) for one in variables().values() if one.area == area]
        head = "| variable | does | takes | default | source |\n|---|---|---|---|---|"
        parts.append(f"## {title}\n{head}\n" + "\n".join(rows) + "\n")
    parts.append("## Sources\n" + "\n".join(f"{number}. {source}" for number, source in enumerate(sources, 1)) + "\n")
    return "\n".join(parts)


def _row(one: Variable, sources: list[str]) -> str:
    meaning = one.meaning + (f" Instead: `{one.instead}`." if one.instead else "")
    meaning += f" ({one.versions_text})" if one.versions_text else ""
    cells = (meaning, one.values_text, one.default, str(sources.index(one.source) + 1))
    return f"| `{one.name}` | " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    sys.exit(main())
