"""Where the user's own files lie: the home folder, and the folder for what can be made again.

A container may run as an unknown user without HOME. Then no folder exists, and the functions return None.
"""

from __future__ import annotations

import os
from pathlib import Path


def home_folder() -> Path | None:
    """Return the user's home folder; None where neither HOME nor the system's list of users has one."""
    try:
        return Path.home()
    except RuntimeError:
        return None


def cache_folder() -> Path | None:
    """Return `$XDG_CACHE_HOME` where that is a whole path (its standard), else `~/.cache`; None without a home."""
    return _named("XDG_CACHE_HOME", ".cache")


def config_folder() -> Path | None:
    """Return `$XDG_CONFIG_HOME` where that is a whole path (its standard), else `~/.config`; None without a home."""
    return _named("XDG_CONFIG_HOME", ".config")


def _named(variable: str, below_home: str) -> Path | None:
    named = Path(os.environ.get(variable, ""))
    if named.is_absolute():
        return named
    home = home_folder()
    return None if home is None else home / below_home
