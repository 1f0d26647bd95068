"""`write`: a complete small distribution that adds one part to Jumar and passes its own tests as it is written.

python -m jumar.testing.scaffold rule acme-rules -o .
"""

from __future__ import annotations

import re
from pathlib import Path
from string import Template

from jumar.base.errors import OutputError, UsageError
from jumar.base.files import explained, new_folder
from jumar.base.plugins import GROUPS

TEMPLATES = Path(__file__).with_name("templates")
TARGETS = {
    "engine": "$module:$Name",
    "rule": "$module",
    "dump-format": "$module:FORMAT",
    "soc-profile": "$module:PROFILE",
    "npu-operator": "$module:OPERATOR",
    "doctor-check": "$module",
    "doctor-entries": "$module:ENTRIES",
    "export-format": "$module:FORMAT",
}
"""Kind of part to what its entry point names."""
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LONGEST_LETTERS = 8


def write(kind: str, name: str, folder: Path) -> Path:
    """Write the distribution `name` with a part of this kind to `folder`/`name` and return that path.

    Raises UsageError for an unknown kind or a name that is none, OutputError where the folder exists or cannot be
    written.
    """
    if kind not in TARGETS:
        raise UsageError(f'"{kind}" must be one of {", ".join(TARGETS)}.')
    if not _NAME.fullmatch(name):
        raise UsageError(f'"{name}" must be lower-case words with hyphens between them, such as acme-rules.')
    place = folder / name
    if place.exists():
        raise OutputError(f"{place} exists; choose another name or another folder with -o.")
    words = words_of(kind, name)
    with explained(place):
        folder.mkdir(parents=True, exist_ok=True)
        with new_folder(place) as draft:
            for path, template in files_of(kind, words["module"]).items():
                (draft / path).parent.mkdir(parents=True, exist_ok=True)
                text = Template((TEMPLATES / template).read_text("utf-8")).substitute(words)
                (draft / path).write_text(text, "utf-8")
    return place


def files_of(kind: str, module: str) -> dict[str, str]:
    """Return the files of a distribution: their path to their template's."""
    return {
        "pyproject.toml": "pyproject.txt",
        "README.md": "readme.txt",
        f"src/{module}.py": f"{kind}/part.txt",
        f"tests/test_{module}.py": f"{kind}/test.txt",
    }


def words_of(kind: str, name: str) -> dict[str, str]:
    """Return what the templates are filled with."""
    module = name.replace("-", "_")
    words = {
        "name": name,
        "module": module,
        "Name": "".join(part.capitalize() for part in name.split("-")),
        "LETTERS": f"{re.sub('[^A-Z]', '', name.upper())}XX"[:_LONGEST_LETTERS],
        "VARIABLE": module.upper(),
        "kind": kind,
        "group": GROUPS[kind],
    }
    return {**words, "target": Template(TARGETS[kind]).substitute(words)}
