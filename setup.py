"""Puts the guides of `docs` into the package as it is built, so that `jumar docs` finds them where pip installed it."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent


class BuildWithGuides(build_py):
    """Builds the package, and copies the guides beside its code. An editable installation reads them where they are."""

    def run(self) -> None:
        """Build, then copy."""
        super().run()
        if getattr(self, "editable_mode", False):
            return
        target = Path(self.build_lib) / "jumar" / "guides"
        for file in self.guides():
            (target / file.parent.relative_to(ROOT / "docs")).mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target / file.relative_to(ROOT / "docs"))
        shutil.copyfile(ROOT / "constraints.txt", target / "constraints.txt")

    def guides(self) -> list[Path]:
        """Return the pages in English and Chinese; those of rules are printed from the rules themselves."""
        folders = (ROOT / "docs", ROOT / "docs" / "zh", ROOT / "docs" / "tutorials")
        return sorted(file for folder in folders for file in folder.glob("*.md"))


setup(cmdclass={"build_py": BuildWithGuides})
