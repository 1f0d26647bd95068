"""Writes the session configuration that the NPU needs, as statements or as one expression: `Writing`."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from jumar.convert.rules.subject.code import Statement, statement_of
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.tensorflow.program.change import free_name
from jumar.convert.rules.tensorflow.program.names import api, module_code, module_name, references
from jumar.convert.rules.tensorflow.program.sessions import OPTIMIZER
from jumar.convert.rules.tensorflow.program.style import adapter
from jumar.convert.syntax.source import Reference, Source

MIXED = (
    "train.experimental.enable_mixed_precision_graph_rewrite",
    "mixed_precision.enable_mixed_precision_graph_rewrite",
)
"""Calls that ask TensorFlow for mixed precision; the NPU asks for it in the session's configuration."""


@dataclass(frozen=True, slots=True)
class Writing:
    """How one file writes a configuration."""

    quote: str
    custom: str
    mixed: bool
    requires: tuple[str, ...]

    @classmethod
    def of(cls, context: Context) -> Writing:
        """Return how this file writes it."""
        source = context.source
        mixed = any(api(found.name) in MIXED for found in references(source))
        return cls(context.quote, _custom_name(source), mixed, (adapter(context).name("RewriterConfig"),))

    def lines(self, target: str) -> list[str]:
        """Return the statements that prepare the configuration `target`."""
        options, quote = f"{target}.graph_options.rewrite_options", self.quote
        found = [
            f"{self.custom} = {options}.custom_optimizers.add()",
            f"{self.custom}.name = {quote}{OPTIMIZER}{quote}",
        ]
        if self.mixed:
            mode = f"{quote}allow_mix_precision{quote}"
            found.append(f"{self.custom}.parameter_map[{quote}precision_mode{quote}].s = b{mode}")
        return [
            *found,
            f"{options}.remapping = RewriterConfig.OFF",
            f"{options}.memory_optimization = RewriterConfig.OFF",
        ]

    def argument(self, module: str) -> str:
        """Return the argument `graph_options` of a ConfigProto that prepares it; `module` is TensorFlow."""
        optimizer = f"RewriterConfig.CustomGraphOptimizer(name={self.quote}{OPTIMIZER}{self.quote})"
        return (
            f"graph_options={module}.GraphOptions(rewrite_options=RewriterConfig(custom_optimizers=[{optimizer}], "
            "remapping=RewriterConfig.OFF, memory_optimization=RewriterConfig.OFF))"
        )


def _custom_name(source: Source) -> str:
    """Return the name of the custom optimizer; one that a file writes already has the same meaning."""
    written = {
        target.target.value
        for node in source.nodes(cst.Assign)
        if ".custom_optimizers.add" in source.code(node.value)
        for target in node.targets
        if isinstance(target.target, cst.Name)
    }
    return "custom_op" if "custom_op" in written else free_name(source, "custom_op")


PROTOS = "from tensorflow.core.protobuf import config_pb2"


def module_of(source: Source, reference: Reference | None, node: cst.CSTNode) -> tuple[str, tuple[str, ...]]:
    """Return what the classes of configurations are attributes of at `node`, and the import this needs."""
    written = module_code(source, reference) if reference is not None else None
    written = written or module_name(source, node)
    return (written, ()) if written else ("config_pb2", (PROTOS,))


def hoisting(source: Source, node: cst.CSTNode) -> Statement | None:
    """Return the statement before which what `node` needs can be said, None where there is no such place."""
    statement = statement_of(source, node)
    if statement is None or any(
        isinstance(each, (cst.Lambda, cst.CompFor)) for each in _between(source, node, statement)
    ):
        return None
    if isinstance(statement, cst.SimpleStatementLine):
        return statement if len(statement.body) == 1 and not _in_class_body(source, statement) else None
    if isinstance(statement, cst.With):
        return statement
    if isinstance(statement, (cst.If, cst.For)):
        parent = source.parent(statement)
        return None if isinstance(parent, cst.If) and parent.orelse is statement else statement
    return None


def _between(source: Source, node: cst.CSTNode, statement: cst.CSTNode) -> list[cst.CSTNode]:
    found = []
    for each in source.ancestors(node):
        if each is statement:
            break
        found.append(each)
    return found


def _in_class_body(source: Source, statement: cst.CSTNode) -> bool:
    block = source.parent(statement)
    return block is not None and isinstance(source.parent(block), cst.ClassDef)
