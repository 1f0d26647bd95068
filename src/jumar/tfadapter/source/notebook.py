"""`notebook_text`: the Python of a notebook's code cells."""

from __future__ import annotations

import json
from typing import Any


def notebook_text(text: str) -> str:
    """Return the code cells, one after the other; commands of IPython (`%`, `!`) are blank lines.

    Raises ValueError, in a few words, for what is no notebook.
    """
    try:
        document = json.loads(text)
    except RecursionError as error:
        raise ValueError("its JSON is too deep") from error
    cells = document.get("cells") if isinstance(document, dict) else None
    if not isinstance(cells, list):
        raise ValueError("it has no list of cells")  # the document's value is wrong
    lines: list[str] = []
    for cell in cells:
        if isinstance(cell, dict) and cell.get("cell_type") == "code":
            lines += _python(_source(cell))
    return "\n".join(lines) + "\n"


def _source(cell: dict[str, Any]) -> str:
    source = cell.get("source")
    if isinstance(source, list):
        return "".join(one for one in source if isinstance(one, str))
    return source if isinstance(source, str) else ""


def _python(source: str) -> list[str]:
    lines = source.splitlines()
    if lines and lines[0].startswith("%%") and not lines[0].startswith(("%%time", "%%capture")):
        return [""] * len(lines)
    return ["" if line.lstrip().startswith(("%", "!")) else line for line in lines]
