"""The output folder of `jumar port`: where each part lies, and the check that nothing of the user's is lost."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from jumar.errors import OutputError

MARKER = ".jumar-port"
"""An empty file that tells a folder Jumar made from one the user made."""


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

    def workspace(self, side: str) -> Path:
        """Copy-on-write folder the script ran in on one side: what it wrote is here."""
        return self.root / "work" / side

    def prepare(self, force: bool) -> None:
        """Create the folder, or with `force` empty a former one of Jumar's own making.

        Raises OutputError when it cannot be written, or holds anything Jumar did not put there.
        """
        if self.root.exists():
            self._check_replaceable(force)
        try:
            shutil.rmtree(self.root, ignore_errors=False) if self.root.exists() else None
            (self.root / "logs").mkdir(parents=True)
            (self.root / MARKER).touch()
        except OSError as error:
            raise OutputError(
                f"the output folder {self.root} cannot be written: {error.strerror}. Choose another one with -o."
            ) from error

    def _check_replaceable(self, force: bool) -> None:
        if not self.root.is_dir():
            raise OutputError(f"the output {self.root} is a file. Choose a folder with -o.")
        if not os.access(self.root, os.W_OK | os.X_OK):
            raise OutputError(
                f"the output folder {self.root} cannot be written: no permission. Choose another with -o."
            )
        ours = (self.root / MARKER).exists()
        if any(self.root.iterdir()) and not (force and ours):
            advice = (
                "Add --force to replace it" if ours else "It holds files Jumar did not make: choose another with -o"
            )
            raise OutputError(f"the output folder {self.root} is not empty. {advice}.")
