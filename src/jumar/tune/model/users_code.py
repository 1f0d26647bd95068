"""Functions and classes that a user names in a module or file: `package.module:name`, `folder/file.py:name`."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any


def named(module: str, name: str) -> Any:
    """Return what `name`, which may have dots, is in a module or Python file. Raises what importing it raises."""
    found: Any = _module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


@contextlib.contextmanager
def from_here(module: str) -> Iterator[None]:
    """Import from the current folder, or the file's own, first; whatever is called meanwhile, the folder stays current.

    Programs go to their own folder for their files; what the user named on the command line is meant from here.
    """
    here = Path.cwd()
    folder = str(Path(module).resolve().parent if module.endswith(".py") else here)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        os.chdir(here)
        with contextlib.suppress(ValueError):
            sys.path.remove(folder)


def _module(module: str) -> ModuleType:
    if not module.endswith(".py"):
        return importlib.import_module(module)
    path = Path(module).resolve()
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if not path.is_file():
        raise ImportError(f"there is no file {module}")
    if spec is None or spec.loader is None:
        raise ImportError(f"{module} is no Python file")
    made = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = made  # so that classes in it can be found by their name (pickle, dataclasses)
    spec.loader.exec_module(made)
    return made
