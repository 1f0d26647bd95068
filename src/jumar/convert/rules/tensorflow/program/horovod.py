"""Horovod's calls in the adapter's words: the texts for TensorFlow 1 and 2."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from jumar.convert.model.edits import Replacement
from jumar.convert.rules.subject.code import default_indent, indent_of, statement_of
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.tensorflow.program.change import free_name, keyword_for
from jumar.convert.rules.tensorflow.program.configuration import Writing, module_of
from jumar.convert.rules.tensorflow.program.names import horovod, name_of
from jumar.convert.syntax.source import Source

RANKS: Mapping[str, str] = {
    "rank": "get_rank_id",
    "size": "get_rank_size",
    "local_rank": "get_local_rank_id",
    "local_size": "get_local_rank_size",
}
"""Horovod's functions -> those of `npu_init`, without arguments."""
VARIABLES: Mapping[str, tuple[str, str]] = {
    "rank": ("RANK_ID", "0"),
    "size": ("RANK_SIZE", "1"),
    "local_rank": ("ASCEND_DEVICE_ID", "0"),
}
"""Horovod's functions -> the environment variable that tells the same to a process of TensorFlow 2, and its default."""
RANK_ID = 'int(os.getenv("RANK_ID", "0"))'


def variable(name: str, quote: str) -> str:
    """Return the expression that reads what Horovod's function `name` returns from the environment."""
    key, default = VARIABLES[name]
    return f"int(os.getenv({quote}{key}{quote}, {quote}{default}{quote}))"


def reduction(source: Source, call: cst.Call) -> str | None:
    """Return `mean`, `sum`, `min` or `max` for a call of allreduce; None for what cannot be told."""
    average = keyword_for(call, 1, "average")
    operation = next((arg for arg in call.args if arg.keyword is not None and arg.keyword.value == "op"), None)
    if operation is not None:
        name = horovod(name_of(source, operation.value) or "")
        return {"Average": "mean", "Sum": "sum", "Min": "min", "Max": "max"}.get(name or "")
    if average is None:
        return "mean"
    code = source.code(average.value)
    return {"True": "mean", "False": "sum", "None": "mean"}.get(code)


def start(context: Context, call: cst.Call) -> Replacement | None:
    """Return the replacement of the statement `hvd.init()` by what initialises the collectives in TensorFlow 1.

    The operators are in a graph of their own, so that those of the script keep their numbers and their seeds.
    """
    source = context.source
    statement = statement_of(source, call)
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return None
    if not isinstance(source.parent(call), cst.Expr):
        return None
    module, _ = module_of(source, None, call)
    writing, indent = Writing.of(context), indent_of(source, statement)
    config, step = free_name(source, "init_config"), default_indent(source)
    lines = [
        "init_graph = " + f"{module}.Graph()",
        "with init_graph.as_default():",
        f"{step}npu_init = npu_ops.initialize_system()",
        f"{step}npu_shutdown = npu_ops.shutdown_system()",
        f"{config} = {module}.ConfigProto()",
        *writing.lines(config),
        f"init_session = {module}.Session(graph=init_graph, config={config})",
        "init_session.run(npu_init)",
    ]
    begin, end = source.span(statement)
    return Replacement(begin, end, f"{source.text.newline}{indent}".join(lines))
