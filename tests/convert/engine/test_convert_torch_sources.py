"""PyTorch's own sources as input: nothing crashes, everything parses, files without CUDA stay byte for byte."""

from __future__ import annotations

import ast
import random
import sysconfig
from pathlib import Path

import pytest

from jumar.convert import Skip, Success, convert_source
from jumar.convert.syntax.source import parse

ROOT = Path(sysconfig.get_paths()["purelib"]) / "torch"
FOLDERS = ("nn", "optim", "distributed", "cuda", "utils", "amp", "profiler", "autograd", "jit", "testing")
MAX_LINES = 1500
CONSTANTS = ("builtins.None", "builtins.True", "builtins.False")


def sample(count: int) -> list[Path]:
    files = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    small = [path for path in files if path.read_bytes().count(b"\n") <= MAX_LINES]
    return random.Random(7).sample(small, count)


def check(path: Path) -> None:
    data = path.read_bytes()
    result = convert_source(data, path.name)
    assert isinstance(result, (Success, Skip)), path
    ast.parse(result.after)
    if result.changed:
        assert convert_source(result.after, path.name).after == result.after, path
    elif isinstance(result, Success):
        assert not any(finding.evidence.get("applied") for finding in result.findings)
    assert result.after.count(b"#") >= data.count(b"#")


@pytest.mark.parametrize("path", sample(25), ids=lambda path: path.name)
def test_a_source_of_torch_survives(path: Path) -> None:
    check(path)


@pytest.mark.slow
def test_hundreds_of_sources_of_torch_survive() -> None:
    for path in sample(300):
        check(path)


@pytest.mark.slow
def test_every_name_and_string_has_its_exact_place() -> None:
    """The offsets of LibCST's nodes agree with Python's own parser."""
    for path in sample(60):
        text = path.read_text(encoding="utf-8")
        source = parse(text, path.name)
        mine = {
            (use.line, use.column)
            for use in source.uses()
            if use.kind in ("reference", "call") and use.name not in CONSTANTS
        }
        lines = text.split("\n")
        theirs = {
            (node.lineno, len(lines[node.lineno - 1].encode()[: node.col_offset].decode()) + 1)
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Name)
        }
        only_mine = {place for place in mine if place not in theirs}
        assert all("{" in lines[line - 1] for line, _ in only_mine), (path, only_mine)
