"""Which framework the imports of a Python file name: `framework_of_imports`. Runs and conversions ask here."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

Framework = Literal["torch", "mindspore", "tensorflow"]
TITLES: Mapping[Framework, str] = {"torch": "PyTorch", "mindspore": "MindSpore", "tensorflow": "TensorFlow"}
TENSORFLOW_PYTHON = "JUMAR_TENSORFLOW"
"""The variable that names the Python with TensorFlow and tf2onnx."""
_MODULES: Mapping[str, Framework] = {
    "mindspore": "mindspore",
    **dict.fromkeys(("tensorflow", "keras", "tf_keras", "npu_bridge", "npu_device"), "tensorflow"),
}
_TORCH = frozenset({"torch", "torch_npu", "lightning", "transformers"})


def framework_of_imports(names: Sequence[str]) -> Framework | None:
    """Return the framework of a file that imports these modules, in its order; None where it imports none.

    A file that imports torch, too, is PyTorch's; beside MindSpore only where torch is its first import.
    """
    tops = [name.partition(".")[0] for name in names]
    other = next((_MODULES[top] for top in tops if top in _MODULES), None)
    if other is None and any(name.startswith(("horovod.tensorflow", "horovod.keras")) for name in names):
        other = "tensorflow"
    if other == "mindspore":
        return "torch" if "torch" in tops and tops.index("torch") == 0 else other
    if other is not None and "torch" not in tops:  # a PyTorch script may read weights or write logs by TensorFlow
        return other
    return "torch" if _TORCH.intersection(tops) else None


def other_framework(names: Sequence[str]) -> Framework | None:
    """Return the framework other than PyTorch of a file that imports these; None where it imports torch, too."""
    return None if names_torch(names) else framework_of_imports(names)


def names_torch(names: Sequence[str]) -> bool:
    """Tell whether a file that imports these uses PyTorch, alone or beside another framework."""
    return any(name.partition(".")[0] == "torch" for name in names) or framework_of_imports(names) == "torch"


def imports_torch(path: Path) -> bool:
    """Tell whether a Python file is PyTorch's. Raises nothing; a file that does not parse is not."""
    try:
        tree = ast.parse(path.read_text("utf-8", errors="replace"))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return False
    return framework_of_imports(list(imported_names(tree))) == "torch"


def imported_names(tree: ast.AST) -> Iterator[str]:
    """Yield the names of the modules that a file imports, in its order, and what it takes from them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield module
            yield from (f"{module.rstrip('.')}.{alias.name}" for alias in node.names)
