"""The framework of a Python source by its imports: `framework_in`, and of the files of a project that import none."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from jumar.base.outside.frameworks import Framework, framework_of_imports, imported_names, other_framework
from jumar.convert.model.text import UNPARSABLE, parse_python

_MAY_BE = re.compile(rb"\b(?:tensorflow|keras|tf_keras|npu_bridge|npu_device|horovod)\b")
_TORCH = re.compile(rb"^[ \t]*(?:import|from)[ \t][^\n]*\btorch\b", re.MULTILINE)
_LINES = re.compile(rb"^[ \t]*(?:from|import)[ \t]+([\w.]+)(?:[ \t]+import[ \t]+(\w+))?", re.MULTILINE)


def framework_in(data: bytes) -> Framework | None:
    """Return the framework of a source, None where it imports none.

    Files with a word of TensorFlow are parsed. One that does not parse is judged by the lines that look like imports.
    """
    if not _MAY_BE.search(data):
        return "torch" if _TORCH.search(data) else None
    try:
        return framework_of_imports(list(imported_names(parse_python(data))))
    except UNPARSABLE:
        names = [b".".join(filter(None, match.groups())).decode("ascii", "replace") for match in _LINES.finditer(data)]
        return framework_of_imports(names)


def other_framework_in(data: bytes) -> Framework | None:
    """Return the framework of a source that is not PyTorch's in any part; None also for one that does not parse."""
    if not (_MAY_BE.search(data) or b"mindspore" in data):
        return None
    try:
        return other_framework(list(imported_names(parse_python(data))))
    except UNPARSABLE:
        return None


def framework_of_rest(sources: Iterable[bytes]) -> str:
    """Return the framework of the files that import none: TensorFlow where no file of the project is PyTorch's."""
    found = {framework_in(data) for data in sources} - {None}
    return "tensorflow" if found == {"tensorflow"} else "torch"


_FIRST = re.compile(
    rb"tensorflow\.compat\.v1|\btf\.(?:compat\.v1|Session|placeholder|ConfigProto|get_variable|contrib|app\.run"
    rb"|set_random_seed|estimator\.|train\.\w+Optimizer)\b"
)
_SECOND = re.compile(rb"\bGradientTape\b|@tf\.function|\btf\.random\.set_seed|keras\.utils\.set_random_seed")


def is_tensorflow_1(sources: Iterable[bytes]) -> bool:
    """Tell whether some of these sources are written for TensorFlow 1, and none for TensorFlow 2."""
    own = [data for data in sources if b"tensorflow" in data]
    return any(_FIRST.search(data) for data in own) and not any(_SECOND.search(data) for data in own)


def config_makers(sources: Iterable[bytes]) -> frozenset[str]:
    """Return the names of the functions in these sources that make a `ConfigProto`."""
    return frozenset(name for data in sources if b"ConfigProto" in data for name in _makers(data))


def _makers(data: bytes) -> Iterator[str]:
    try:
        tree = parse_python(data)
    except UNPARSABLE:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any(_is_proto(inner) for inner in ast.walk(node)):
            yield node.name


def _is_proto(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    return (isinstance(called, ast.Attribute) and called.attr == "ConfigProto") or (
        isinstance(called, ast.Name) and called.id == "ConfigProto"
    )
