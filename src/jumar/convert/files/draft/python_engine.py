"""Gives the kinds of files that hold Python the engine for Python sources.

The engine hands files over to their kinds, so the kinds cannot import it: the package hands it in when
it is loaded.
"""

from __future__ import annotations

from typing import Protocol

from jumar.convert.model.options import ConvertOptions
from jumar.convert.model.outcome import Outcome
from jumar.convert.model.project import ProjectFacts


class ConvertSource(Protocol):
    """What `jumar.convert.engine.file.convert_source` does."""

    def __call__(self, source: str | bytes, path: str, options: ConvertOptions, project: ProjectFacts) -> Outcome:
        """Convert one Python source; never raises for what it holds."""


_engines: list[ConvertSource] = []


def hand_in(engine: ConvertSource) -> None:
    """Make `engine` the one that `convert_python` calls."""
    _engines[:] = [engine]


def convert_python(code: str, path: str, options: ConvertOptions, project: ProjectFacts) -> Outcome:
    """Convert Python code that stands in another file.

    Raises RuntimeError where no engine was handed in, which loading `jumar.convert` does.
    """
    if not _engines:
        raise RuntimeError("no engine for Python sources was handed in; import jumar.convert")
    return _engines[0](code, path, options, project)
