"""## What it does
Reports what may make sessions, estimators or collectives without naming them: `getattr(tf, ...)`,
`from tensorflow import *`, `importlib.import_module("tensorflow...")`, names with several meanings, code in
strings.

## Why it matters
Such a session is not prepared, and runs on the host's CPU without a word.

## Example
```python
session = getattr(tf, "Session")()
```

## Use instead
```python
session = tf.Session()
```

## Fix safety
No fix.

## References
- jumar docs guide-convert-tensorflow
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.tensorflow.program.names import api, horovod, name_of, references
from jumar.convert.rules.tensorflow.program.sessions import PROTO, SESSIONS
from jumar.convert.syntax.literals import literals

RULE = Rule(
    code="JM664",
    name="unresolved-tensorflow-name",
    summary="A name of TensorFlow cannot be told from the source.",
    severity=Severity.WARNING,
    doc=__doc__,
)

_WANTED = frozenset({*SESSIONS, PROTO, "estimator.Estimator", "estimator.RunConfig", "nn.dropout"})
_CODE = re.compile(r"\btf\.(?:compat\.v1\.)?(?:Session|ConfigProto|InteractiveSession|estimator\.)")


def find(context: Context) -> Iterator[Proposal]:
    """Report names that nothing resolves."""
    source = context.source
    for node in source.nodes(cst.Call):
        name = name_of(source, node.func)
        if name == "builtins.getattr" and node.args and _is_module(context, node.args[0].value):
            yield _proposal(context, node, f"`{source.code(node)}` reads a name of TensorFlow at run time")
        elif name == "importlib.import_module" and node.args and "tensorflow" in source.code(node.args[0].value):
            yield _proposal(context, node, "TensorFlow is imported at run time")
    for statement in source.nodes(cst.ImportFrom):
        if isinstance(statement.names, cst.ImportStar) and statement.module is not None:
            module = source.code(statement.module)
            if api(module) is not None or horovod(module) is not None:
                yield _proposal(context, statement, f"`{source.code(statement)}` hides where names come from")
    for found in references(source):
        if not found.certain and api(found.name) in _WANTED:
            yield _proposal(context, found.node, f"`{source.code(found.node)}` may be TensorFlow's, or something else")
    for text in literals(source):
        if _CODE.search(text.body):
            yield _proposal(context, text.node, "A string holds code of TensorFlow")


def _is_module(context: Context, node: cst.BaseExpression) -> bool:
    name = name_of(context.source, node) or ""
    return name != "" and (api(name) is not None or horovod(name) is not None)


def _proposal(context: Context, node: cst.CSTNode, message: str) -> Proposal:
    return Proposal(
        rule=RULE, span=context.source.span(node), confidence="likely",
        message=f"{message}: it is not converted.", action="Name it as tf.NAME and convert again.",
    )  # fmt: skip
