"""Writes the collector: `jumar_collector.pyz`, one file with the modules that it needs."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import jumar
from jumar.base.errors import OutputError
from jumar.base.files import write_bytes

NAME = "jumar_collector.pyz"
_MAIN = "import sys\nfrom jumar.capture.frameworks.tensorflow.collector.run import main\nsys.exit(main())\n"
_PACKAGES = ("capture/frameworks/tensorflow/observe", "capture/frameworks/tensorflow/collector")
_SHARED = ("capture/notes/nested.py", "capture/notes/patches.py")
"""What the observer uses of Jumar's other modules."""


def collector_modules() -> Iterator[tuple[str, str]]:
    """Yield the files of the collector: name within the archive, and content."""
    root = Path(jumar.__file__).parent
    files = [
        *_SHARED,
        *(path.relative_to(root).as_posix() for name in _PACKAGES for path in (root / name).glob("*.py")),
    ]
    folders = {parent for name in files for parent in Path("jumar", name).parents} - {Path()}
    yield "__main__.py", _MAIN
    yield from sorted((f"{folder.as_posix()}/__init__.py", "") for folder in folders)
    for name in sorted(files):
        if not name.endswith("/__init__.py"):
            yield f"jumar/{name}", (root / name).read_text("utf-8")


def write_collector(folder: Path) -> Path:
    """Write the collector into a folder, which is made, and return its path. Raises OutputError."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in collector_modules():
            archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), text, zipfile.ZIP_DEFLATED)
    path = folder / NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_bytes(path, content.getvalue())
    except OSError as error:
        raise OutputError(f"{path} cannot be written ({error.strerror}). Name another folder.") from error
    return path
