"""Write constraints.txt: the versions of Jumar's dependencies in this environment, with which it is verified.

    python scripts/write_constraints.py

`pip install -c constraints.txt .` then installs these. A version that a supported Python cannot have is left to pip
there. A local version (`2.13.0+cpu`) is written without its label, because the index decides which build it has.
"""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

TARGET = Path(__file__).resolve().parents[1] / "constraints.txt"
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
HEAD = """\
# The versions that Jumar is verified with on Linux and Python 3.11; scripts/write_constraints.py writes this file.
#     pip install -c constraints.txt .
# Without it pip takes any versions that pyproject.toml allows, and leaves a torch that is installed as it is.
"""


def needed(name: str, extras: set[str], found: dict[str, metadata.Distribution]) -> None:
    """Add a distribution that is installed, and what it and these of its extras require, by normal names."""
    key = re.sub(r"[-_.]+", "-", name).lower()
    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return
    if key in found and not extras:
        return
    found[key] = distribution
    for text in distribution.requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            needed(requirement.name, requirement.extras, found)


def line(distribution: metadata.Distribution) -> str:
    """Return the constraint of one distribution, with a marker where not every supported Python can have it."""
    wanted = SpecifierSet(distribution.metadata.get("Requires-Python", ""))
    oldest = next(python for python in PYTHONS if wanted.contains(f"{python}.99"))
    marker = "" if oldest == PYTHONS[0] else f'; python_version >= "{oldest}"'
    return f"{distribution.metadata['Name'].lower()}=={distribution.version.partition('+')[0]}{marker}"


def text() -> str:
    """Return the text of the file for this environment."""
    found: dict[str, metadata.Distribution] = {}
    needed("jumar", set(metadata.metadata("jumar").get_all("Provides-Extra") or ()), found)
    return HEAD + "".join(f"{line(found[key])}\n" for key in sorted(found) if key != "jumar")


if __name__ == "__main__":
    TARGET.write_text(text(), "utf-8")
