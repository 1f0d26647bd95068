"""## What it does
Adds the imports from the NPU's adapter that the other edits need, once a file and right behind the first import of
TensorFlow: names of `npu_bridge.npu_init` for TensorFlow 1.15, of `npu_device.compat.v1.npu_init` with `-c`,
`npu_device` for TensorFlow 2. With `-c`, the entry script also calls `npu_device.compat.enable_v1()`.

## Why it matters
Importing the adapter makes the NPU known to TensorFlow. The names are imported one by one, so that none of the
script's own is hidden, as `from npu_bridge.npu_init import *` may do.

## Example
```python
import tensorflow as tf
sess = tf.Session(config=tf.ConfigProto())
```

## Use instead
```python
import tensorflow as tf
from npu_bridge.npu_init import RewriterConfig
npu_config = tf.ConfigProto()
custom_op = npu_config.graph_options.rewrite_options.custom_optimizers.add()
custom_op.name = 'NpuOptimizer'
npu_config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
npu_config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
sess = tf.Session(config=npu_config)
```

## Fix safety
Safe.

## References
- https://www.hiascend.com/document/detail/zh/TensorFlowCommercial/latest/migration/tfmigr1/tfmigr1_000019.html
- https://www.hiascend.com/document/detail/zh/TensorFlowCommercial/latest/migration/tfmigr2/tfmigr2_000024.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.subject import preamble
from jumar.convert.rules.subject.context import Context
from jumar.convert.syntax.scopes import dotted_name
from jumar.convert.syntax.source import Source

RULE = Rule(
    code="JM640",
    name="npu-import",
    summary="Edits rest on imports from the NPU's adapter that the file lacks.",
    severity=Severity.ADVICE,
    doc=__doc__,
    safety="safe",
)

_FROM = re.compile(r"from (?P<module>[\w.]+) import (?P<name>\w+)")
_IMPORT = re.compile(r"import (?P<name>[\w.]+)")
_WIDTH = 100
_COMPAT = "npu_device.compat.v1.npu_init"
_ENABLE = ("import npu_device", "npu_device.compat.enable_v1()")


def find(context: Context) -> Iterator[Proposal]:
    """Propose the missing imports as one insertion."""
    needed = [
        statement
        for proposal in context.proposals
        if context.options.makes(proposal.rule, proposal.safety)
        for statement in proposal.requires
    ]
    lines = list(_lines(context.source, list(dict.fromkeys(needed))))
    if not lines:
        return
    place = _place(context)
    edit = place.line(context.source, "\n".join(lines))
    said = " and ".join(f"`{' '.join(line.split())}`" for line in lines)
    message = f"What was converted needs {said}."
    yield Proposal(rule=RULE, span=(edit.start, edit.start), message=message, replacements=(edit,))


def _lines(source: Source, needed: list[str]) -> Iterator[str]:
    """Yield the statements that are missing, the names of one module together."""
    names: dict[str, list[str]] = {}
    for statement in needed:
        match = _FROM.fullmatch(statement)
        if match is None:
            if not _has(source, statement):
                yield statement
        elif not _is_imported(source, match["module"], match["name"]):
            names.setdefault(match["module"], []).append(match["name"])
    for module, wanted in names.items():
        yield _import_of(module, sorted(wanted))
        if module == _COMPAT:
            yield from (line for line in _ENABLE if not _has(source, line) and line not in needed)


def _import_of(module: str, names: list[str]) -> str:
    """Return the import of names, one a line where a line would be too long."""
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= _WIDTH:
        return line
    return "\n".join([f"from {module} import (", *(f"    {name}," for name in names), ")"])


def _has(source: Source, statement: str) -> bool:
    match = _IMPORT.fullmatch(statement)
    if match is None:
        return any(statement in source.code(node) for node in source.module.body)
    bound = match["name"].partition(".")[0]
    scope = source.tree.own_scopes[source.module]
    return any(binding.kind == "import" and binding.qualified == bound for binding in scope.bindings.get(bound, []))


def _is_imported(source: Source, module: str, name: str) -> bool:
    """Tell whether the module has a name of the adapter, perhaps by a star import."""
    scope = source.tree.own_scopes[source.module]
    if any(star in (module, "npu_bridge.npu_init") for star in scope.stars):
        return True
    return any(
        binding.kind == "import" and (binding.qualified or "").endswith(f".{name}")
        for binding in scope.bindings.get(name, [])
    )


def _place(context: Context) -> preamble.Place:
    """Return the place behind the first import of TensorFlow at the top of the module, else behind its head."""
    source = context.source
    edits = [edit for proposal in context.proposals for edit in proposal.replacements]
    for statement in source.module.body:
        if _imports_tensorflow(source, statement):
            place = preamble.after(source, statement)
            if not any(edit.start < place.offset < edit.end for edit in edits):
                return place
    first = min((edit.start for edit in edits), default=0)
    return preamble.head(source, first, edits)


def _imports_tensorflow(source: Source, statement: cst.CSTNode) -> bool:
    parts = statement.body if isinstance(statement, cst.SimpleStatementLine) else ()
    if isinstance(statement, cst.Try):
        return any(_imports_tensorflow(source, inner) for inner in statement.body.body)
    for part in parts:
        if isinstance(part, cst.Import):
            names = [dotted_name(alias.name) or "" for alias in part.names]
        elif isinstance(part, cst.ImportFrom) and part.module is not None and not part.relative:
            names = [dotted_name(part.module) or ""]
        else:
            continue
        if any(name.partition(".")[0] in ("tensorflow", "tf_keras") for name in names):
            return True
    return False
