"""Reads how a script uses apex.amp, as far as torch.amp can replace it."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from jumar.convert.rules.manual.program.training_step import StepError
from jumar.convert.rules.subject.code import statement_of
from jumar.convert.rules.subject.context import keyword
from jumar.convert.syntax.scopes import last_name
from jumar.convert.syntax.source import Reference, Source
from jumar.convert.syntax.tree import descendants

_DROPPED = frozenset(
    {"opt_level", "loss_scale", "keep_batchnorm_fp32", "cast_model_outputs", "cast_model_type", "verbosity"}
    | {"min_loss_scale", "max_loss_scale", "patch_torch_functions", "master_weights", "combine_grad", "combine_ddp"}
    | {"enabled", "models", "optimizers"}
)


@dataclass(frozen=True, slots=True, eq=False)
class Initialize:
    """`model, optimizer = amp.initialize(model, optimizer, ...)` as a statement of its own."""

    line: cst.SimpleStatementLine
    targets: cst.BaseExpression
    call: cst.Call

    @property
    def inputs(self) -> list[cst.Arg]:
        """The arguments that it gives back: models and optimizers."""
        return [arg for arg in self.call.args if arg.keyword is None][:2] + [
            arg for arg in self.call.args if arg.keyword is not None and arg.keyword.value in ("models", "optimizers")
        ]


@dataclass(frozen=True, slots=True, eq=False)
class ScaledBackward:
    """`with amp.scale_loss(loss, optimizer) as scaled: scaled.backward()`."""

    block: cst.With
    loss: cst.BaseExpression
    backward: cst.Call


@dataclass(slots=True)
class ApexUses:
    """Every use of apex.amp in a file, by kind."""

    initialize: list[Initialize] = field(default_factory=list)
    backward: list[ScaledBackward] = field(default_factory=list)
    master: list[cst.Call] = field(default_factory=list)
    states: list[Reference] = field(default_factory=list)
    """`amp.state_dict` and `amp.load_state_dict`."""
    references: list[Reference] = field(default_factory=list)


def apex_uses(source: Source) -> ApexUses:
    """Return the uses of apex.amp. Raises StepError when one of them has no counterpart."""
    found = ApexUses()
    for reference in source.references:
        if not reference.name.startswith("apex.amp"):
            continue
        found.references.append(reference)
        name, call = reference.name.removeprefix("apex.amp").lstrip("."), reference.call
        if not reference.certain:
            raise StepError("apex.amp has rival definitions here")
        if name == "initialize" and call is not None:
            found.initialize.append(_initialize(source, call))
        elif name == "scale_loss" and call is not None:
            found.backward.append(_scaled(source, call))
        elif name == "master_params" and call is not None and len(call.args) == 1:
            found.master.append(call)
        elif name in ("state_dict", "load_state_dict") and call is not None:
            found.states.append(reference)
        else:
            raise StepError(f"`{source.code(reference.node)}` has no counterpart in torch.amp")
    return found


def _initialize(source: Source, call: cst.Call) -> Initialize:
    parent = source.parent(call)
    line = source.parent(parent) if parent is not None else None
    if not (isinstance(parent, cst.Assign) and len(parent.targets) == 1 and isinstance(line, cst.SimpleStatementLine)):
        raise StepError("amp.initialize is not a plain assignment here")
    if len(line.body) > 1 or any(arg.star for arg in call.args):
        raise StepError("amp.initialize is called in a form that is not rewritten")
    positional = [arg for arg in call.args if arg.keyword is None]
    unknown = {arg.keyword.value for arg in call.args if arg.keyword is not None} - _DROPPED
    if unknown or len(positional) > 2:
        raise StepError(f"amp.initialize is given {', '.join(sorted(unknown)) or 'positional options'}")
    for arg in call.args:
        if arg.keyword is not None and any(isinstance(node, cst.Call) for node in descendants(arg.value)):
            raise StepError("amp.initialize is given the result of a call as an option")
    return Initialize(line, parent.targets[0].target, call)


def _scaled(source: Source, call: cst.Call) -> ScaledBackward:
    item = source.parent(call)
    block = source.parent(item) if isinstance(item, cst.WithItem) else None
    if not isinstance(block, cst.With) or not isinstance(item, cst.WithItem) or len(block.items) != 1:
        raise StepError("amp.scale_loss is not a `with` of its own here")
    if item.asname is None or not call.args or call.args[0].keyword is not None or keyword(call, "loss_id") is not None:
        raise StepError("amp.scale_loss is called in a form that is not rewritten")
    body = block.body.body
    line = body[0] if len(body) == 1 else None
    statement = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None
    backward = statement.value if isinstance(statement, cst.Expr) else None
    if not (isinstance(backward, cst.Call) and isinstance(backward.func, cst.Attribute)):
        raise StepError("more than the backward pass stands under amp.scale_loss")
    if last_name(backward.func) != "backward" or last_name(backward.func.value) != last_name(item.asname.name):
        raise StepError("something else than the scaled loss goes backward under amp.scale_loss")
    between = source.text.text[source.span(call)[1] : source.span(backward)[0]]
    if "#" in between or statement_of(source, block) is not block:
        raise StepError("a comment stands between amp.scale_loss and the backward pass")
    return ScaledBackward(block, call.args[0].value, backward)
