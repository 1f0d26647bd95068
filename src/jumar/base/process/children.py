"""Python processes that Jumar starts: `command` and `environment` say what they may import.

Python puts the working folder, or a script's folder, first on the import path. A file `json.py` that lies there is then
imported in the place of the standard library's. A process of Jumar's own imports from the interpreter's folders, from
where Jumar lies, and from what else is on this process's path, unless other users can write there. The working folder
is left out. A user's script keeps the path that `python SCRIPT` gives it.
"""

from __future__ import annotations

import os
import site
import stat
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

_FIRST = (
    "import sys\n"
    "if not getattr(sys.flags, 'safe_path', False):\n"
    "    sys.path[0] = {library!r}\n"  # it was '', the working folder; one that is there twice changes nothing
    "if {home!r} not in sys.path:\n"
    "    sys.path.append({home!r})\n"
)
"""Comes before all imports but those that the interpreter does itself, which never look in the working folder."""
_WITHOUT_WORKING_FOLDER = (
    "import sys\nsys.path[:] = [one for one in sys.path if one]\nexec(compile({script!r}, {name!r}, 'exec'))\n"
)
_HOME = str(Path(__file__).absolute().parents[3])
"""The folder that Jumar lies in."""
_MODULE = "del sys.argv[0]\nimport runpy\nrunpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)\n"


def command(*, module: str = "", code: str = "", arguments: Sequence[str] = ()) -> list[str]:
    """Return the command of a Python process that runs a module, or code, with these arguments.

    It is `python -m MODULE` or `python -c CODE` without the working folder on the import path.
    """
    first = _FIRST.format(library=sysconfig.get_path("stdlib"), home=_HOME)
    run = [first + _MODULE, module] if module else [first + code]
    return [sys.executable, "-c", *run, *arguments]


def of_another(python: str | Path, script: Path) -> list[str]:
    """Return the command by which another interpreter, which need not have Jumar, runs a script of Jumar's."""
    return [str(python), "-c", _WITHOUT_WORKING_FOLDER.format(script=script.read_text("utf-8"), name=script.name)]


def of_the_user(words: Sequence[str]) -> list[str]:
    """Return the command of Python for a program of the user's: it imports what the user's command line says."""
    return [sys.executable, *words]


def environment(base: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment (`base`, this process's unless given) for a process that runs nothing of the user's.

    Such a process, and those that it starts, import from the `trusted` folders of `sys.path`.
    """
    found = dict(os.environ if base is None else base)
    found["PYTHONPATH"] = os.pathsep.join(trusted(sys.path))
    found["PYTHONSAFEPATH"] = "1"
    return found


def trusted(entries: Iterable[str]) -> list[str]:
    """Return the folders of an import path that a process of Jumar's own imports from, as whole paths.

    Others can write to none of them. The working folder is among them where PYTHONPATH names it by its whole path.
    """
    named = _named()
    here = os.path.realpath(os.curdir)
    found = []
    for entry in entries:
        path = os.path.realpath(entry or os.curdir)
        is_working_folder = path == here and path not in named
        if path in _own() or not (is_working_folder or others_can_write(Path(path))):
            found.append(str(Path(entry).absolute()))
    return list(dict.fromkeys(found))


def others_can_write(path: Path) -> bool:
    """Tell whether other users can put files into a folder, or another folder in its place; also of one that is not
    there. A group of the user's own counts as the user.
    """
    try:
        told = [one.stat() for one in (path, *path.parents)]
    except OSError:
        return True
    if not hasattr(os, "getuid"):  # pragma: no cover - Windows keeps no such bits
        return False
    if told[0].st_mode & stat.S_IWOTH:
        return True
    shared = [one for one in told[1:] if one.st_mode & stat.S_IWOTH]
    if any(not one.st_mode & stat.S_ISVTX for one in shared):
        return True
    # In /tmp anyone makes folders; what belongs to this user, or the system, nobody else made.
    return bool(shared) and any(one.st_uid not in {0, os.getuid()} for one in told)


def _named() -> frozenset[str]:
    """Return the folders that PYTHONPATH names by a whole path: the user wants these, whatever folder is current."""
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return frozenset(os.path.realpath(entry) for entry in entries if Path(entry).is_absolute())


@cache
def _own() -> frozenset[str]:
    """Return the interpreter's own folders and the one that Jumar lies in; without them nothing would run."""
    folders = [*sysconfig.get_paths().values(), *site.getsitepackages()]
    if site.ENABLE_USER_SITE and site.USER_SITE:
        folders.append(site.USER_SITE)
    folders += [str(Path(sysconfig.get_path("platstdlib")) / "lib-dynload"), _HOME]
    return frozenset(map(os.path.realpath, folders))
