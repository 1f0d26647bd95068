"""A PostgreSQL server of our own for the tests of a team's bank."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path


def missing() -> str:
    """Return why no server can be started here, empty when one can."""
    if program("initdb") is None:
        return "no PostgreSQL server is installed (initdb was not found)"
    if find_spec("psycopg") is None:
        return "the driver psycopg is not installed"
    if os.geteuid() == 0 and _unprivileged() is None:
        return "PostgreSQL refuses to run as root, and there is no other user"
    return ""


def program(name: str) -> str | None:
    """Return a program of PostgreSQL: Debian keeps them out of PATH."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return shutil.which(name) or next((str(place / name) for place in places if (place / name).exists()), None)


def _unprivileged() -> pwd.struct_passwd | None:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    return None


@contextmanager
def server() -> Iterator[str]:
    """Run a server on a Unix socket in a folder of its own and yield the URL of an empty database."""
    user = _unprivileged() if os.geteuid() == 0 else None
    how = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user is not None else {}
    # A socket's path must be short, and readable by the server's user: not pytest's folder.
    with tempfile.TemporaryDirectory(prefix="jumar-pg-", dir="/tmp" if sys.platform == "linux" else None) as name:
        folder = Path(name)
        if user is not None:
            os.chown(folder, user.pw_uid, user.pw_gid)
        data = str(folder / "data")
        run = {"capture_output": True, "cwd": name, "timeout": 120, **how}
        subprocess.run([program("initdb"), "-D", data, "-U", "jumar", "-A", "trust", "--no-sync"], check=True, **run)
        options = f"-k {name} -c listen_addresses='' -c fsync=off"
        log = str(folder / "log")
        # Not captured: the server would keep the pipe open.
        quiet = {**run, "capture_output": False, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run([program("pg_ctl"), "-D", data, "-o", options, "-l", log, "-w", "start"], check=True, **quiet)
        try:
            yield f"postgresql+psycopg://jumar@/postgres?host={name}"
        finally:
            subprocess.run([program("pg_ctl"), "-D", data, "-m", "immediate", "stop"], check=False, **quiet)
