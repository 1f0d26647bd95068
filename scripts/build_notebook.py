"""Write `docs/tutorials/first.ipynb` from the first tutorial: `python scripts/build_notebook.py`.

Text becomes Markdown cells, a block with a file's name a cell that writes it, commands a cell each. It has no outputs.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "docs" / "tutorials"
_BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$\n?", re.MULTILINE | re.DOTALL)


def notebook() -> str:
    """Return the notebook as text."""
    text = (FOLDER / "1-port.md").read_text("utf-8")
    cells: list[dict[str, object]] = []
    at = 0
    for match in _BLOCK.finditer(text):
        add(cells, "markdown", text[at : match.start()])
        at = match.end()
        info, body = match[1].strip(), match[2]
        if info.startswith("python file="):
            add(cells, "code", f"%%writefile {info.removeprefix('python file=')}\n{body}")
        elif info.startswith("bash"):
            for command in body.splitlines():
                words = command.split()
                add(cells, "code", f"%{command}" if words[0] == "jumar" else f"!{command}")
        else:
            add(cells, "markdown", f"```\n{body}```")
    add(cells, "markdown", text[at:])
    cells.insert(1, cell("code", "%load_ext jumar", 1))
    for number, one in enumerate(cells):
        one["id"] = f"cell-{number}"
    metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    document = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def add(cells: list[dict[str, object]], kind: str, text: str) -> None:
    """Add a cell, unless its text is empty."""
    if text.strip():
        cells.append(cell(kind, text.strip(), len(cells)))


def cell(kind: str, text: str, number: int) -> dict[str, object]:
    """Return a cell of the notebook format 4.5."""
    lines = text.splitlines(keepends=True)
    found: dict[str, object] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": lines}
    return found | ({"execution_count": None, "outputs": []} if kind == "code" else {})


if __name__ == "__main__":
    (FOLDER / "first.ipynb").write_text(notebook(), encoding="utf-8")
    sys.exit(0)
