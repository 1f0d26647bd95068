"""Patches that the real `git apply` takes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from jumar.convert import convert_tree
from jumar.convert.disk.patch import file_patch

SOURCES = {
    "plain.py": b"import torch\n\nx.cuda()\ny = 1\n",
    "crlf.py": b"import torch\r\n\r\nx.cuda()\r\n",
    "mixed.py": b"import torch\r\nx.cuda()\ny\r\n",
    "no_newline.py": b"import torch\nx.cuda()",
    "no_newline_crlf.py": b"a = 1\r\nx.cuda()",
    "import_last.py": b"x.cuda()\nimport torch",
    "gbk.py": "# coding: gbk\nx.cuda()  # 中文\n".encode("gbk"),
    "bom.py": b"\xef\xbb\xbfx.cuda()\n",
    "sub folder/with space.py": b"x.cuda()\n",
    "sub/unicode é.py": b"x.cuda()\n",
    'sub/quote".py': b"x.cuda()\n",
    "form_feed.py": b"a = 1\n\x0c\nx.cuda()\n",
    "separators.py": "a = 'x\u2028y\u0085z'\nx.cuda()\n".encode(),
    "untouched.py": b"x = 1\n",
    "long.py": b"".join(b"a = 1\n" * 9 + b"x.cuda()\n" for _ in range(5)),
}


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "source"
    for name, data in SOURCES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


@pytest.mark.parametrize("in_repository", [True, False])
def test_git_applies_the_patch_and_gets_the_converted_bytes(tree: Path, tmp_path: Path, in_repository: bool) -> None:
    conversion = convert_tree(tree)
    assert len(conversion.changed) == len(SOURCES) - 1
    if in_repository:
        git(tree, "init", "-q")
        git(tree, "config", "core.autocrlf", "false")
    patch = tmp_path / "changes.patch"
    patch.write_bytes(conversion.patch_bytes())
    git(tree, "apply", "--whitespace=nowarn", str(patch))
    for outcome in conversion.files:
        assert (tree / outcome.path).read_bytes() == outcome.after, outcome.path
    git(tree, "apply", "-R", "--whitespace=nowarn", str(patch))
    for name, data in SOURCES.items():
        assert (tree / name).read_bytes() == data, name


def test_the_text_of_a_patch_keeps_bytes_that_are_not_utf8(tree: Path) -> None:
    conversion = convert_tree(tree)
    assert conversion.patch().encode("utf-8", "surrogateescape") == conversion.patch_bytes()


def test_equal_files_make_no_patch() -> None:
    assert file_patch("a.py", b"x\n", b"x\n") == b""
