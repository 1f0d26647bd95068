"""`Sources`: the project's files that a port converts, where their patch applies, and what they were before it.

A port keeps the files that it changes as they were. Where its patch is applied afterwards, the next port into the
same folder runs those on the reference device: a converted script no longer runs there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jumar.base.errors import OutputError
from jumar.base.files import explained
from jumar.convert import Conversion, ConvertOptions, convert_files
from jumar.port.layout import Layout

_NPU_WORD = re.compile(rb"torch_npu|\bnpu\b|is_npu", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The files of one port, converted."""

    conversion: Conversion
    earlier: Mapping[Path, bytes]
    """Files that are converted already -> their content before that, which an earlier port kept."""

    @property
    def paths(self) -> set[Path]:
        """All files, converted or found to need nothing, with links resolved."""
        return {(self.conversion.root / file.path).resolve() for file in self.conversion.files}

    @property
    def before(self) -> dict[Path, bytes]:
        """The files as they run on the reference device."""
        return {self._place(file.path): file.before for file in self.conversion.files} | dict(self.earlier)

    @property
    def after(self) -> dict[Path, bytes]:
        """The files as they run on the NPU."""
        return {self._place(file.path): file.after for file in self.conversion.files}

    @property
    def num_converted(self) -> int:
        """Files that the conversion changed now or, with what it left, in an earlier port."""
        return len({self._place(file.path) for file in self.conversion.changed} | set(self.earlier))

    def write(self, layout: Layout, script: Path) -> None:
        """Write the converted files, the patch, and the files as they were. Raises OutputError."""
        self.conversion.write(layout.converted, force=True)
        layout.patch.write_bytes(self.conversion.patch_bytes())
        kept = {self._place(file.path): file.before for file in self.conversion.changed} | dict(self.earlier)
        with explained(layout.originals, "choose another folder with -o"):
            for path, content in kept.items():
                place = layout.originals / path.relative_to(self.conversion.root)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content)
            layout.marker.write_text(os.path.relpath(self.conversion.root, script.parent), "utf-8")

    def _place(self, path: str) -> Path:
        return self.conversion.root / path


def convert_sources(files: Sequence[Path], kept: Mapping[Path, bytes], options: ConvertOptions) -> Sources:
    """Convert these files, the first one of the project; `kept` are files as they were before an earlier port.

    Files outside of the project's Git repository that need no change are left out: the patch is for the repository.
    """
    root = root_of(files)
    conversion = convert_files(root, files, options)
    inner = root_of([files[0], *(root / file.path for file in conversion.changed), *kept.keys() & set(files)])
    if git_top(inner) is not None and git_top(root) is None:
        root = inner
        conversion = convert_files(root, [path for path in files if path.is_relative_to(root)], options)
    earlier = {
        place: kept[place]
        for file in conversion.files
        if (place := root / file.path) in kept and _is_converted(kept[place], file.before)
    }
    return Sources(conversion=conversion, earlier=earlier)


def kept_sources(layout: Layout, script: Path) -> dict[Path, bytes]:
    """Return the files that an earlier port of `script` into the same folder kept, by path; {} without one.

    Paths are found from the script's, so that a project and its port can be moved. Raises OutputError.
    """
    if not layout.is_own or not layout.originals.is_dir():
        return {}
    try:
        root = script.parent / layout.marker.read_text("utf-8")
        files = [path for path in sorted(layout.originals.rglob("*")) if path.is_file() and not path.is_symlink()]
        return {(root / path.relative_to(layout.originals)).resolve(): path.read_bytes() for path in files}
    except (OSError, ValueError) as error:
        raise OutputError(
            f"{layout.originals} cannot be read: {error}. Remove {layout.root}, or choose another folder with -o."
        ) from error


def root_of(files: Iterable[Path]) -> Path:
    """Return the folder that paths are relative to: the top of the Git repository of all files, else their common one.

    A patch with such paths is what `git apply` takes at that folder.
    """
    common = Path(os.path.commonpath([file.parent for file in files]))
    return git_top(common) or common


def git_top(folder: Path) -> Path | None:
    """Return the top of the Git repository that holds `folder`; None outside of one."""
    return next((parent for parent in (folder, *folder.parents) if (parent / ".git").exists()), None)


def _is_converted(before: bytes, now: bytes) -> bool:
    """Tell whether a file that was `before` has been converted since: it names the NPU more often."""
    return len(_NPU_WORD.findall(now)) > len(_NPU_WORD.findall(before))
