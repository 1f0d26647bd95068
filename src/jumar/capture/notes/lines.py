"""`UserLines`: the line of the user's code that led to a call. Imports no framework."""

from __future__ import annotations

import os
import sysconfig
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FrameType

import jumar


class UserLines:
    """Finds the innermost frame outside of the frameworks, Jumar and Python's own library: `train.py:41`.

    Paths are shown relative to the script's folder or the package folder, so that the same script
    in another place gives the same text.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._roots = [str(root) for root in (folder, Path.cwd()) if root is not None]
        self._shown: dict[int, tuple[str, CodeType]] = {}
        """By identity of the code, which is kept alive: equality of code compares all of its constants."""
        self._lines: dict[tuple[int, int], str] = {}

    def find(self, frame: FrameType | None) -> str:
        """Return `file:line` of the first frame of user code at or outside of `frame`; empty without one."""
        while frame is not None:
            code = frame.f_code
            shown = self.shown(code)
            if shown:
                place = (id(code), frame.f_lineno)
                line = self._lines.get(place)
                if line is None:
                    line = self._lines[place] = f"{shown}:{place[1]}"
                return line
            frame = frame.f_back
        return ""

    def shown(self, code: CodeType) -> str:
        """Return the file name of user code as rows have it; empty for other code."""
        known = self._shown.get(id(code))
        if known is None:
            known = self._shown[id(code)] = self.show(code.co_filename), code
        return known[0]

    def show(self, name: str) -> str:
        """Return a file's name as rows have it; empty where it is no user code."""
        if name.startswith("<") or name.startswith(_NOT_USER_CODE):
            return ""
        for packages in _PACKAGES:
            if name.startswith(packages):
                return name[len(packages) :]
        if name.startswith(_STANDARD_LIBRARY):
            return ""
        for root in self._roots:
            if name.startswith(root + os.sep):
                return name[len(root) + 1 :]
        return Path(name).name


def is_users(name: str) -> bool:
    """Say whether a code's file name is of a program or of a package it uses: not a framework's, Python's or ours."""
    if name.startswith(("<frozen ", *_NOT_USER_CODE)):
        return False
    return name.startswith(_PACKAGES) or not name.startswith(_STANDARD_LIBRARY)


def _prefix(folder: str | Path) -> str:
    return str(folder) + os.sep


def _folders_of(name: str) -> tuple[str, ...]:
    """Return the folder of a package that is installed; it is not imported."""
    spec = find_spec(name)
    return tuple(map(_prefix, spec.submodule_search_locations or ())) if spec is not None else ()


_FRAMEWORKS = ("torch", "mindspore", "tensorflow", "keras", "tf_keras", "tensorflow_estimator")
_NOT_USER_CODE = (
    *(folder for name in _FRAMEWORKS for folder in _folders_of(name)),
    _prefix(Path(jumar.__file__).parent),
)
_PACKAGES = tuple({_prefix(sysconfig.get_paths()[key]) for key in ("purelib", "platlib")})
_STANDARD_LIBRARY = _prefix(sysconfig.get_paths()["stdlib"])
