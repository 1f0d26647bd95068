"""`Layout`: the output folder of `jumar port`, and the check that no file of the user is lost."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from jumar.base.errors import OutputError
from jumar.base.files import explained

MARKER = ".jumar-port"
"""A file that marks a folder as made by Jumar. It holds the way from the script's folder to the root of the patch."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths inside the output folder."""

    root: Path

    @property
    def page(self) -> Path:
        """The page a person opens first."""
        return self.root / "index.html"

    @property
    def findings(self) -> Path:
        """All findings and figures as one JSON document."""
        return self.root / "findings.json"

    @property
    def patch(self) -> Path:
        """The conversion as a patch for `git apply`."""
        return self.root / "changes.patch"

    @property
    def converted(self) -> Path:
        """The converted sources."""
        return self.root / "converted"

    @property
    def originals(self) -> Path:
        """The files that the conversion changes, as they were."""
        return self.root / "original"

    @property
    def marker(self) -> Path:
        """The file that marks the folder as made by Jumar."""
        return self.root / MARKER

    @property
    def is_own(self) -> bool:
        """Whether the folder is there and an earlier port made it."""
        return self.marker.is_file()

    @property
    def reference(self) -> Path:
        """Recording of the unchanged script on the reference device."""
        return self.recording("reference")

    @property
    def target(self) -> Path:
        """Recording of the converted script on the NPU."""
        return self.recording("npu")

    def recording(self, side: str) -> Path:
        """Recording of one side: `reference`, or the device of the converted script."""
        return self.root / side

    def log(self, side: str) -> Path:
        """Output of the script on one side (`reference`, `npu`)."""
        return self.root / "logs" / f"{side}.log"

    def executed(self, side: str) -> Path:
        """List of the project's files that the script executed on one side."""
        return self.root / "logs" / f"{side}.files"

    def workspace(self, side: str) -> Path:
        """Copy-on-write folder the script ran in on one side: what it wrote is here."""
        return self.root / "work" / side

    def prepare(self, force: bool) -> None:
        """Create the folder; with `force` empty one that Jumar made before.

        Raises OutputError when it cannot be written, or when it holds files and Jumar did not make it.
        """
        if self.root.exists():
            self._check_replaceable(force)
        with explained(self.root, "choose another folder with -o"):
            if self.root.exists():
                shutil.rmtree(self.root)
            (self.root / "logs").mkdir(parents=True)
            self.marker.touch()

    def _check_replaceable(self, force: bool) -> None:
        if not self.root.is_dir():
            raise OutputError(f"the output {self.root} is a file. Choose a folder with -o.")
        if not os.access(self.root, os.W_OK | os.X_OK):
            raise OutputError(
                f"the output folder {self.root} cannot be written: no permission. Choose another with -o."
            )
        made_by_jumar = self.is_own
        if any(self.root.iterdir()) and not (force and made_by_jumar):
            other = "It holds files that Jumar did not make: choose another with -o"
            advice = "Add --force to replace it" if made_by_jumar else other
            raise OutputError(f"the output folder {self.root} is not empty. {advice}.")
