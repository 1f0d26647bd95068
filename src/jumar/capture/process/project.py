"""Which files of the user's project a trial run executes, and the copies of them in its mirror: `watch_project`.

A file belongs to the project unless Python, an installed package or Jumar brought it. Where a module is imported from
the user's own folder (an editable install, a path that the script inserts), `MirrorFinder` takes its copy in the
mirror: the copy is what the trial run changes.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import jumar
from jumar.base.lazy import spec_behind
from jumar.capture.process.workspace import ENVIRONMENT as WORKSPACE

ENVIRONMENT = "JUMAR_PROJECT_FILES"
"""Environment variable that names the file to which a process of a trial run adds what it executed, a path a line."""
FOLDER = "JUMAR_PROJECT_FOLDER"
"""Environment variable that names the project's folder: files in it count, also those that no import finds."""

_INSTALLED = frozenset({"site-packages", "dist-packages"})


def is_project_file(path: str | Path) -> bool:
    """Tell whether a Python file is the user's own: neither Python's, nor an installed package's, nor Jumar's."""
    place = Path(path)
    return (
        place.is_absolute()
        and place.suffix == ".py"
        and _INSTALLED.isdisjoint(place.parts)
        and not any(place.is_relative_to(folder) for folder in _foreign_folders())
        and not any(place.relative_to(folder).parts[0] in _installed_in(folder) for folder in place.parents)
    )


def import_folders(environ: Mapping[str, str]) -> list[Path]:
    """Return the folders of PYTHONPATH that may hold modules of the project, in order."""
    entries = [Path(entry).absolute() for entry in environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    return [folder for folder in entries if folder.is_dir() and is_project_file(folder / "module.py")]


def executed_files(log: Path) -> tuple[Path, ...]:
    """Return the project's files that the processes of a trial run executed, in the order in which they began."""
    try:
        lines = log.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return ()
    found = dict.fromkeys(Path(line).resolve() for line in lines)
    return tuple(path for path in found if path.is_file() and is_project_file(path))


def watch_project(environ: Mapping[str, str]) -> None:
    """Note what this process executes of the project, and import from the mirror, as the environment asks."""
    root, log = environ.get(WORKSPACE), environ.get(ENVIRONMENT)
    if not root or not log:
        return
    watch = _Watch(root, Path(log), environ.get(FOLDER, ""))
    _foreign_folders()  # Python 3.13 imports a module for these: the finder below would ask for them meanwhile
    sys.meta_path.insert(0, MirrorFinder(root, watch))
    for module in list(sys.modules.values()):
        watch.note(getattr(module, "__file__", None))
    sys.addaudithook(watch)


class _Watch:
    """The audit hook that writes down each file of the project when its code begins.

    Code of files that stand elsewhere, such as a compiler's cache, is none of the project's unless it was imported.
    """

    def __init__(self, root: str, log: Path, folder: str) -> None:
        self._root = os.path.normpath(root)
        self._log = log
        self._folder = folder
        self._seen: set[str] = set()

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "exec" and arguments and isinstance(arguments[0], CodeType):
            self.note(arguments[0].co_filename)

    def note(self, file: object, *, imported: bool = False) -> None:
        """Write down a file that belongs to the project, once a process."""
        if not isinstance(file, str) or file in self._seen or not file.endswith(".py"):
            return
        place = os.path.abspath(file)  # noqa: PTH100 - `resolve` would leave the mirror
        original = place.removeprefix(self._root) if place.startswith(self._root + os.sep) else place
        if not is_project_file(original) or not (imported or self._is_inside(original)):
            return
        self._seen.add(file)
        with suppress(OSError), self._log.open("a", encoding="utf-8", errors="surrogateescape") as log:
            log.write(original + "\n")

    def _is_inside(self, original: str) -> bool:
        folders = [self._folder, *(entry.removeprefix(self._root) for entry in sys.path if isinstance(entry, str))]
        return any(folder and original.startswith(folder.rstrip(os.sep) + os.sep) for folder in folders)


class MirrorFinder(MetaPathFinder):
    """Finds a module as the other finders do; one that lies in the user's folder is taken from the mirror at `root`."""

    def __init__(self, root: str, watch: _Watch) -> None:
        self._root = os.path.normpath(root)
        self._watch = watch

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec that the next finder has, with the file in the mirror; None where no finder has one."""
        spec = spec_behind(self, fullname, path, target)
        return None if spec is None else self._mirrored(spec)

    def _mirrored(self, spec: ModuleSpec) -> ModuleSpec:
        if type(spec.loader) is not SourceFileLoader or spec.origin is None or not is_project_file(spec.origin):
            return spec
        self._watch.note(spec.origin, imported=True)
        place = counterpart(self._root, spec.origin)
        if place is None:
            return spec
        folders = spec.submodule_search_locations
        inside = None if folders is None else [counterpart(self._root, folder) or folder for folder in folders]
        return spec_from_file_location(spec.name, place, submodule_search_locations=inside) or spec


def counterpart(root: str, path: str) -> str | None:
    """Return where a path of the user's is seen in the mirror at `root`; None for a path of the mirror, and outside."""
    if path.startswith(root + os.sep):
        return None
    mirrored = root + os.path.realpath(path)
    return mirrored if os.path.exists(mirrored) else None  # noqa: PTH110 - called at every import


@cache
def _installed_in(folder: Path) -> frozenset[str]:
    """Return the files and folders that pip put right into a folder (`--target`, a container's image), by its records.

    An editable installation records no source: its sources stay the user's own.
    """
    with suppress(OSError):
        records = [entry / "RECORD" for entry in folder.iterdir() if entry.name.endswith(".dist-info")]
        lines = (line for record in records for line in record.read_text("utf-8", "replace").splitlines())
        return frozenset(line.split("/", 1)[0].split(",", 1)[0].strip('"') for line in lines)
    return frozenset()


@cache
def _foreign_folders() -> tuple[Path, ...]:
    return tuple(dict.fromkeys(_found_folders()))


def _found_folders() -> Iterator[Path]:
    own = Path(jumar.__file__).parent
    found = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    for folder in (*(Path(name) for name in found if name), own):
        yield folder
        yield folder.resolve()
