"""Converts many sources: `convert_tree` and `convert_files` return a `Conversion`, which writes folders and patches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from jumar.base.errors import InputError
from jumar.base.findings import Finding
from jumar.convert.disk.in_place import write_in_place
from jumar.convert.disk.patch import file_patch
from jumar.convert.disk.reading import read_at_rest, read_sources
from jumar.convert.disk.walk import SKIPPED_FOLDERS, walk
from jumar.convert.disk.writing import check_output, clear_leftovers, write_folder
from jumar.convert.engine.converting import Progress, convert_all
from jumar.convert.engine.file import convert_source
from jumar.convert.facts.framework import other_framework_in
from jumar.convert.files import is_python
from jumar.convert.model.options import ConvertOptions
from jumar.convert.model.outcome import Failure, Outcome, Skip, Success


@dataclass(frozen=True)
class Conversion:
    """The outcomes of a conversion, one a file, with paths relative to `root` (forward slashes)."""

    root: Path
    files: tuple[Outcome, ...]
    others: tuple[str, ...] = ()
    """Files under the root that hold nothing to convert, and symbolic links; `write` copies them."""
    folders: tuple[str, ...] = ()
    """Folders under the root, also empty ones; `write` makes them."""
    notes: tuple[Finding, ...] = ()
    """Findings about the tree as a whole: what could not be read, links, words that files share."""

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """Every file's findings, in the order of the files, then the notes."""
        return (*(finding for outcome in self.files for finding in outcome.findings), *self.notes)

    @cached_property
    def of_mindspore(self) -> tuple[str, ...]:
        """Sources of MindSpore, which no rule is for."""
        python = (outcome for outcome in self.files if is_python(outcome.path, outcome.before))
        return tuple(outcome.path for outcome in python if other_framework_in(outcome.before) == "mindspore")

    @property
    def changed(self) -> tuple[Outcome, ...]:
        """The outcomes whose bytes differ."""
        return tuple(outcome for outcome in self.files if outcome.changed)

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The files that could not be read, or on which Jumar failed."""
        return tuple(outcome for outcome in self.files if isinstance(outcome, Failure))

    @property
    def num_edits(self) -> int:
        """Replacements made in all files."""
        return sum(outcome.num_edits for outcome in self.files)

    def patch_bytes(self) -> bytes:
        """Return the patch that `git apply` takes at the source root."""
        return b"".join(file_patch(outcome.path, outcome.before, outcome.after) for outcome in self.changed)

    def patch(self) -> str:
        """Return `patch_bytes` as text; bytes that are not UTF-8 are kept as surrogate escapes."""
        return self.patch_bytes().decode("utf-8", "surrogateescape")

    def write(self, out: Path, force: bool = False, *, reports: Mapping[str, bytes] | None = None) -> None:
        """Write every converted and unchanged file, copies of the others, and `reports` by name, under `out`.

        The folder appears whole or not at all: it is filled under a temporary name beside its place.
        Raises OutputError when `out` exists and `force` is false, lies inside the source root (or the
        other way round), or cannot be written.
        """
        out = Path(out)
        clear_leftovers(out)
        check_output(self.root, out, force)
        write_folder(self.root, out, self.files, self.others, self.folders, reports or {})

    def write_in_place(self, patch_path: Path) -> Path:
        """Convert the files where they lie, and return the patch by which `git apply -R` takes that back.

        A patch that exists is never overwritten: the next free name of its kind is taken. Raises InputError
        when a file changed since it was read (nothing is touched then), OutputError when a write fails
        (everything is put back then).
        """
        return write_in_place(self.root, self.changed, Path(patch_path))


def convert_files(
    root: Path,
    files: Sequence[Path],
    options: ConvertOptions | None = None,
    *,
    on_progress: Progress | None = None,
    jobs: int | None = None,
    cache: bool = True,
) -> Conversion:
    """Convert these files, which lie under `root`; one of a kind that nothing else knows is taken for Python.

    Raises InputError for a file that cannot be read or lies outside. `jobs` bounds the processes (1: none
    but this one; None: as many as there are processors and work for), `cache` allows results of earlier
    runs to be read and kept, which happens for large conversions only.
    """
    root = Path(root)
    options = options or ConvertOptions()
    sources = dict(_source(root, Path(file)) for file in files)
    found, notes = convert_all(sources, options, jobs=jobs, cache=cache, on_progress=on_progress)
    outcomes = (outcome or convert_source(sources[path], path, options) for path, outcome in found.items())
    return Conversion(root, tuple(outcomes), notes=tuple(notes))


def _source(root: Path, file: Path) -> tuple[str, bytes]:
    try:
        name = (file if file.is_absolute() == root.is_absolute() else root / file).relative_to(root).as_posix()
    except ValueError as error:
        raise InputError(f'"{file}" must lie under {root}; move it there, or give another root.') from error
    try:
        return name, read_at_rest(root / name)[0]
    except OSError as error:
        raise InputError(f'"{file}" cannot be read: {error.strerror}.') from error


def convert_tree(
    source: Path,
    options: ConvertOptions | None = None,
    *,
    exclude: Sequence[Path] = (),
    on_progress: Progress | None = None,
    jobs: int | None = None,
    cache: bool = True,
) -> Conversion:
    """Convert every file under a folder that some part of the conversion knows, or one file.

    Symbolic links are copied, not followed; what cannot be read is a finding, and the rest is converted.
    `exclude` names files and folders to leave out (an output inside the source). `jobs` and `cache` are
    those of `convert_files`. Raises InputError when `source` is missing or cannot be listed.
    """
    source = Path(source)
    if source.is_file():
        return convert_files(source.parent, [source], options, on_progress=on_progress, jobs=jobs, cache=cache)
    if not source.is_dir():
        raise InputError(f'"{source}" must be a Python file or a folder; there is none of that name.')
    tree = walk(source, exclude)
    read = read_sources(source, tree.files)
    found, notes = convert_all(
        read.sources, options or ConvertOptions(), jobs=jobs, cache=cache, on_progress=on_progress
    )
    others = [*tree.links, *read.others, *(path for path, outcome in found.items() if outcome is None)]
    return Conversion(
        source,
        tuple(outcome for outcome in found.values() if outcome is not None),
        tuple(sorted(others)),
        tuple(tree.folders),
        (*tree.notes, *read.notes, *notes),
    )


__all__ = [
    "SKIPPED_FOLDERS",
    "Conversion",
    "Failure",
    "Progress",
    "Skip",
    "Success",
    "check_output",
    "convert_files",
    "convert_tree",
]
