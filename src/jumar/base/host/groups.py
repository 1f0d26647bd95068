"""`groups`: the folders of the control groups that hold this process; `read_text`: a small file of the system."""

from __future__ import annotations

from functools import cache
from pathlib import Path

ROOT = Path("/")


def groups(root: Path, controller: str) -> tuple[Path, ...]:
    """Return the folders of the control groups that hold this process; of this machine they are looked up once."""
    return _groups_here(controller) if root == ROOT else _find_groups(root, controller)


@cache
def _groups_here(controller: str) -> tuple[Path, ...]:
    return _find_groups(ROOT, controller)


def _find_groups(root: Path, controller: str) -> tuple[Path, ...]:
    """Return the folders of the control groups that hold this process, the outermost first.

    cgroup v2 has one tree at /sys/fs/cgroup, v1 one for each controller below it. Within a container the tree's
    top is usually the container's own group; on a host /proc/self/cgroup names the group.
    """
    own = {controller: "", "": ""}
    for line in read_text(root / "proc/self/cgroup").splitlines():
        _, names, path = [*line.split(":", 2), "", ""][:3]
        own |= dict.fromkeys([names, *names.split(",")], path.strip("/"))
    tree = root / "sys/fs/cgroup"
    folders = []
    for top, path in ((tree, own[""]), (tree / controller, own[controller])):
        parts = [part for part in path.split("/") if part]
        if ".." in parts:
            parts = []  # the group lies outside of what this container may see
        folders += [top.joinpath(*parts[:depth]) for depth in range(len(parts) + 1)]
    return tuple(folder for folder in folders if folder.is_dir())


def read_text(file: Path) -> str:
    """Return the text of a file without blanks around it; empty where it cannot be read."""
    try:
        return file.read_text("utf-8", "replace").strip()
    except OSError:
        return ""
