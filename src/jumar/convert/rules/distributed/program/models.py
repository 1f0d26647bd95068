"""Makes models that learn parallel before their training starts. Their own attributes stay reachable."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.convert.rules.distributed.program.change import (
    Change,
    around,
    line_before,
    replaced,
    starts_line,
    statement_of,
)
from jumar.convert.rules.distributed.program.entry import main_guard
from jumar.convert.rules.distributed.program.flow import Holder
from jumar.convert.rules.distributed.program.library_names import MODULE_METHODS
from jumar.convert.rules.distributed.program.training import Model, Training, Unclear
from jumar.convert.rules.subject.context import keyword, uses_of
from jumar.convert.syntax.devices import callee_name
from jumar.convert.syntax.source import Source
from jumar.convert.syntax.tree import descendants

_DATA_PARALLEL = (
    "torch.nn.DataParallel",
    "torch.nn.parallel.DataParallel",
    "torch.nn.parallel.data_parallel.DataParallel",
)
_WHOLE = frozenset(
    {
        "torch.save", "copy.deepcopy", "copy.copy", "torch.jit.script", "torch.jit.trace", "torch.onnx.export",
        "pickle.dump", "builtins.len", "builtins.iter", "builtins.isinstance", "builtins.type",
        "torch.optim.swa_utils.AveragedModel",
    }
)  # fmt: skip
"""Functions that are to see the model itself, not what averages its gradients."""
_NO_GRAD = ("torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad", "torch.autograd.inference_mode")


def changes(training: Training) -> Iterator[Change]:
    """Yield the changes that make every learning model parallel, and advice about what that means."""
    source = training.source
    for model in training.models:
        _check_calls(training, model)
        yield from _wrapped(training, model)
        yield from _bare(training, model)
    for reference in uses_of(source, *_DATA_PARALLEL):
        if reference.call is not None:
            yield Change(
                span=source.span(reference.node),
                message="DataParallel drives one device from each rank; the keys of its checkpoints stay as they were.",
                replacements=(replaced(source, reference.node, "data_parallel"),),
                helpers=frozenset({"data_parallel"}),
                shared=True,
            )
    yield from _advice(training)


# --- where a model becomes parallel ----------------------------------------------------------------------


def _wrapped(training: Training, model: Model) -> Iterator[Change]:
    source = training.source
    name = model.holder.name
    found = False
    for step in _entries(training, model.holder):
        statement = _outermost(training, model.holder, step)
        if not starts_line(source, statement):
            raise Unclear("the training starts in the middle of a line", statement, "Give it a line of its own.")
        text = f"self.{name}" if model.holder.of_class is not None else name
        options = ", broadcast_buffers=False" if _called_often(training, model) else ""
        edit = line_before(source, statement, f"{text} = parallel_model({text}{options})")
        found = True
        yield Change(
            span=(edit.start, edit.start),
            message=f"`{text}` averages its gradients over the ranks from here on"
            + (" (its buffers stay each rank's own: it is called more than once a step)." if options else "."),
            replacements=(edit,),
            helpers=frozenset({"parallel_model"}),
            shared=True,
        )
    if not found:
        raise Unclear(f"no place was found at which `{name}` is made and its training not yet started")


def _entries(training: Training, holder: Holder) -> list[cst.Call]:
    """Return, for each function in which the model's training starts, the first step there."""
    flow, source = training.flow, training.source
    owner = holder.of_class
    steps = sorted(training.steps, key=source.span)
    if owner is None:
        home = getattr(holder.owner, "owner", None)
        function = home if isinstance(home, cst.FunctionDef) else None
        inside = [step for step in steps if flow.function(step) is function or _within(training, step, function)]
        return inside[:1]
    methods = {flow.function(step) for step in steps if flow.class_of(flow.function(step)) is owner}
    inner = {
        method
        for method in methods
        if method is not None
        and any(flow.class_of(flow.function(call)) is owner for call in flow.calls_of.get(method, ()))
    }
    outer = [method for method in methods if method is not None and method not in inner]
    return [next(step for step in steps if flow.function(step) is method) for method in outer]


def _within(training: Training, step: cst.Call, function: cst.FunctionDef | None) -> bool:
    return function is not None and function in training.source.ancestors(step)


def _outermost(training: Training, holder: Holder, step: cst.Call) -> cst.CSTNode:
    """Return the outermost statement around the first step that starts after the model is made and moved."""
    source, flow = training.source, training.flow
    function = flow.function(step)
    made = [source.span(node)[0] for node in _preparations(training, holder) if flow.function(node) is function]
    before = max((at for at in made if at < source.span(step)[0]), default=-1)
    best = statement_of(source, step)
    node = best
    guard = main_guard(source)
    while True:
        block = source.parent(node)
        outer = source.parent(block) if isinstance(block, cst.IndentedBlock) else None
        if outer is None or isinstance(outer, (cst.FunctionDef, cst.ClassDef)) or outer is guard:
            return best
        while (
            not isinstance(source.parent(outer), (cst.IndentedBlock, cst.Module)) and source.parent(outer) is not None
        ):
            outer = source.parent(outer) or outer
        if source.span(outer)[0] <= before:
            return best
        best = node = outer


def _preparations(training: Training, holder: Holder) -> Iterator[cst.CSTNode]:
    """Yield what makes a model, moves it, or loads its weights in place."""
    flow, source = training.flow, training.source
    for name in (*source.nodes(cst.Name), *source.nodes(cst.Attribute)):
        if flow.holder(name) != holder:
            continue
        if name in source.tree.stored:
            yield name
        parent = source.parent(name)
        if not isinstance(parent, cst.Attribute) or parent.value is not name or source.called(parent) is None:
            continue
        if parent.attr.value in ("to", "cuda", "npu", "apply", "load_state_dict", "parameters"):
            yield parent


def _called_often(training: Training, model: Model) -> bool:
    """Tell whether one training step calls the model more than once, so that buffers may not change in between."""
    source = training.source
    for loop in training.loops:
        calls = [
            call
            for call in source.nodes(cst.Call)
            if training.flow.holder(call.func) in model.origins and loop in source.ancestors(call)
        ]
        if len(calls) > 1 and len(training.models) > 1:
            return True
    return False


# --- uses of the model -----------------------------------------------------------------------------------


def _check_calls(training: Training, model: Model) -> None:
    """Raise Unclear where a part or a method of the model computes what is trained: only `model(...)` is parallel."""
    source, flow = training.source, training.flow
    for call in source.nodes(cst.Call):
        if not isinstance(call.func, cst.Attribute):
            continue
        if (
            _leaves_device(source, call)
            and flow.holder(flow.stripped(call)) in model.origins
            and _repeats(training, call)
        ):
            raise Unclear(
                "the model leaves its device while it trains", call, "Copy its state_dict to the CPU instead."
            )
        if call.func.attr.value in MODULE_METHODS:
            continue
        base: cst.BaseExpression = call.func.value
        while isinstance(base, cst.Attribute) and flow.holder(base) not in model.origins:
            base = base.value
        if flow.holder(base) not in model.origins or isinstance(source.parent(call), cst.Expr):
            continue
        if _computes(training, call) and not _returns_plain(training, call):
            raise Unclear(
                f"`{source.code(call.func)}(...)` computes with the model without calling it, so its gradients would "
                "not be averaged",
                call,
                "Let the model's forward do it.",
            )


def _leaves_device(source: Source, call: cst.Call) -> bool:
    """Tell whether a call moves something to the CPU."""
    moved = source.code(call.args[0].value).strip("'\"") if len(call.args) == 1 else ""
    return callee_name(call) == "cpu" or (callee_name(call) == "to" and moved == "cpu")


def _repeats(training: Training, call: cst.Call) -> bool:
    """Tell whether a call is made in a loop that trains."""
    source = training.source
    loops = [loop for loop in source.ancestors(call) if isinstance(loop, (cst.For, cst.While))]
    return any(loop in source.ancestors(step) for loop in loops for step in training.steps)


def _computes(training: Training, call: cst.Call) -> bool:
    """Tell whether a call is part of training steps: in a function or loop that trains, gradients on."""
    source = training.source
    function = training.flow.function(call)
    loops = any(loop in source.ancestors(call) for loop in training.loops)
    if not loops and (function is None or function not in training.trains):
        return False
    for node in source.ancestors(call):
        if isinstance(node, cst.With):
            items = [item.item.func if isinstance(item.item, cst.Call) else item.item for item in node.items]
            if any(source.qualified(item) in _NO_GRAD for item in items):
                return False
    return loops or not training.loops


def _returns_plain(training: Training, call: cst.Call) -> bool:
    """Tell whether the method of a class of this file is known to return nothing."""
    target = training.flow.callee(call)
    return target is not None and not any(True for _ in training.flow.returned(target[0], None))


def _bare(training: Training, model: Model) -> Iterator[Change]:
    """Yield changes for code that needs the model itself: what stores or copies it, indexes, counts or names it."""
    source, flow = training.source, training.flow
    for node in _needing(training):
        if flow.holder(node) in model.origins:
            yield Change(
                span=source.outer_span(node),
                message=f"`{source.code(node)}` is the model itself here, not what averages its gradients.",
                replacements=around(source, node, "bare_model("),
                helpers=frozenset({"bare_model"}),
            )


def _needing(training: Training) -> Iterator[cst.BaseExpression]:
    source = training.source
    for call in source.nodes(cst.Call):
        if source.qualified(call.func) in _WHOLE and call.args:
            yield from _whole_values(call.args[0].value)
    for subscript in source.nodes(cst.Subscript):
        yield subscript.value
    for loop in source.nodes(cst.For):
        yield loop.iter
    for clause in source.nodes(cst.CompFor):
        yield clause.iter


def _whole_values(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    if isinstance(node, (cst.Dict, cst.Tuple, cst.List)):
        yield from (element.value for element in node.elements)
    else:
        yield node


# --- advice ----------------------------------------------------------------------------------------------


def _advice(training: Training) -> Iterator[Change]:
    source = training.source
    yield from _accumulation(training)
    for call in source.nodes(cst.Call):
        name = source.qualified(call.func) or ""
        if name.startswith("torch.nn.BatchNorm"):
            yield Change(
                span=source.span(call.func),
                severity=Severity.ADVICE,
                message="Batch normalisation takes its statistics from one rank's samples.",
                action="Where a rank's batch is small, convert the model with "
                "torch.nn.SyncBatchNorm.convert_sync_batchnorm before parallel_model.",
            )
            break
    for call in source.nodes(cst.Call):
        reduction = keyword(call, "reduction")
        if reduction is not None and source.code(reduction.value)[1:-1] == "sum" and _in_step(training, call):
            yield Change(
                span=source.span(call.func),
                severity=Severity.WARNING,
                message="This loss is a sum over samples; gradients are averaged over the ranks, so they are "
                "smaller by the number of ranks than one process with the global batch would have.",
                action="Scale the learning rate, or multiply the loss by WORLD_SIZE before backward().",
                confidence="likely",
            )


def _in_step(training: Training, call: cst.Call) -> bool:
    """Tell whether a loss may be one that is trained on: in a function that trains, or one that makes criteria."""
    function = training.flow.function(call)
    loops = [loop for loop in training.loops if training.flow.function(loop) is function]
    return function is None or function in training.trains or (not loops and _no_loop(training, function))


def _no_loop(training: Training, function: cst.FunctionDef) -> bool:
    return not any(function in training.source.ancestors(loop) for loop in training.source.nodes(cst.For))


def _accumulation(training: Training) -> Iterator[Change]:
    """Advise no_sync where the optimizer steps less often than gradients are computed."""
    source = training.source
    for call in source.nodes(cst.Call):
        holder = training.flow.holder(call.func.value) if isinstance(call.func, cst.Attribute) else None
        if callee_name(call) != "step" or holder not in training.optimizer_holders:
            continue
        condition = source.enclosing(call, cst.If)
        loops = [loop for loop in training.loops if loop in source.ancestors(call)]
        if condition is None or not loops or not _counts(condition):
            continue
        if any(condition not in source.ancestors(step) for step in training.backwards):
            yield Change(
                span=source.span(call.func),
                severity=Severity.ADVICE,
                message="Gradients are accumulated over several backward passes, and averaged over the ranks in each.",
                action="Run all but the last one under model.no_sync(), which saves the communication.",
            )


def _counts(condition: cst.If) -> bool:
    """Tell whether a test is about a remainder, as of `(i + 1) % accumulate == 0`."""
    return any(isinstance(node, cst.Modulo) for node in descendants(condition.test))
