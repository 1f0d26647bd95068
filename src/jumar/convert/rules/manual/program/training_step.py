"""Reads a plain training step: the statements that compute the loss, its backward pass, the optimizer's step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from jumar.convert.model.edits import Replacement
from jumar.convert.rules.subject.code import Statement, lines_after, statement_of, suite_of
from jumar.convert.rules.subject.names import assigned_values, descendants_here, method_calls, peeled, words_of
from jumar.convert.syntax.devices import callee_name
from jumar.convert.syntax.scopes import last_name
from jumar.convert.syntax.source import Source
from jumar.convert.syntax.tree import descendants

_MODEL_WORDS = frozenset(
    {"model", "net", "network", "module", "encoder", "decoder", "generator", "discriminator", "backbone", "classifier"}
    | {"actor", "critic", "policy", "teacher", "student", "ddp", "transformer", "gan", "vae", "unet", "resnet", "rnn"}
    | {"lstm", "lm", "forward"}
)
_MAKING_WORDS = frozenset(
    {"create", "build", "make", "get", "load", "init", "wrap", "setup", "prepare", "save", "set", "count", "print"}
    | {"convert", "compile", "register", "update", "freeze", "unfreeze", "apply", "copy", "summary", "log"}
)
_LOSS_WORDS = frozenset({"loss", "criterion", "objective", "lossfn"})
_CLIPS = frozenset({"clip_grad_norm_", "clip_grad_value_", "clip_grad_norm"})


class StepError(Exception):
    """A training step has a form that is not rewritten; the message says which, as the end of a sentence."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainingStep:
    """The parts of one training step."""

    backward: cst.Call
    loss: cst.BaseExpression
    """What `.backward()` is called on."""
    first: Statement
    last: Statement
    """The statements from the model's call to the last one that computes the loss."""
    steps: tuple[cst.Call, ...]
    clips: tuple[Statement, ...]
    """Statements that clip gradients between the backward pass and the step, at most one a suite."""


def backward_calls(source: Source) -> Iterator[cst.Call]:
    """Yield `loss.backward()` calls that are statements of their own."""
    for call in source.nodes(cst.Call):
        is_backward = isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward"
        if is_backward and isinstance(source.parent(call), cst.Expr):
            yield call


def function_of(source: Source, node: cst.CSTNode) -> cst.FunctionDef | cst.Module:
    """Return the function that `node` runs in, or the module."""
    return source.enclosing(node, cst.FunctionDef) or source.module


def training_step(source: Source, backward: cst.Call) -> TrainingStep:
    """Return the training step around a `.backward()` call. Raises StepError where it is not a plain one."""
    function = function_of(source, backward)
    assert isinstance(backward.func, cst.Attribute)
    _check(source, function, backward)
    steps = tuple(optimizer_steps(source, function))
    if not steps:
        raise StepError("no optimizer steps in the same function")
    if any(call.args for call in steps):
        raise StepError("its optimizer steps with a closure")
    first, last = forward_pass(source, backward, backward.func.value)
    after = source.span(backward)[1]
    clips = tuple(_clips(source, function, after))
    for call in steps:
        if source.span(call)[0] < after:
            raise StepError("the optimizer steps before the loss goes backward")
    return TrainingStep(backward, backward.func.value, first, last, steps, clips)


def optimizer_steps(source: Source, node: cst.CSTNode) -> Iterator[cst.Call]:
    """Yield `optimizer.step(...)` calls, not those of learning-rate schedulers."""
    for call in method_calls(node, "step"):
        on = call.func.value if isinstance(call.func, cst.Attribute) else None
        if on is not None and isinstance(source.parent(call), cst.Expr) and is_optimizer(source, on):
            yield call


def has_optimizer_steps(source: Source) -> bool:
    """Tell whether an optimizer steps anywhere in the file."""
    functions = [source.module, *source.nodes(cst.FunctionDef)]
    return any(True for function in functions for _ in optimizer_steps(source, function))


def is_optimizer(source: Source, node: cst.BaseExpression) -> bool:
    """Tell whether a variable holds an optimizer: it is made by torch.optim, or called so."""
    name = last_name(node)
    made = [peeled(value) for value in assigned_values(source, name)] if name else []
    names = [source.qualified(value.func) or "" for value in made if isinstance(value, cst.Call)]
    if any(known.startswith("torch.optim.lr_scheduler.") for known in names):
        return False
    if any(known.startswith(("torch.optim.", "torch_npu.optim.", "apex.optimizers.")) for known in names):
        return True
    words = words_of(name)
    return any(word.startswith("optim") or word == "opt" for word in words) and not any("sched" in w for w in words)


def stepped_after(source: Source, steps: Sequence[cst.Call], scaler: str) -> Iterator[Replacement]:
    """Yield the edits that let optimizers step through a scaler, which is updated behind the last one.

    Raises StepError when they step in different suites.
    """
    for call in steps:
        assert isinstance(call.func, cst.Attribute)
        low, high = source.outer_span(call.func.value)
        yield Replacement(low, low, f"{scaler}.step(")
        yield Replacement(high, source.span(call)[1] - 1, "")
    statements = [statement_of(source, call) for call in steps]
    if len({id(source.parent(statement)) for statement in statements if statement is not None}) > 1:
        raise StepError("its optimizers step in different places")
    last = statements[-1]
    if not isinstance(last, cst.SimpleStatementLine) or None in statements:
        end = source.span(steps[-1])[1]
        yield Replacement(end, end, f"; {scaler}.update()")
    else:
        yield lines_after(source, last, f"{scaler}.update()")


def _check(source: Source, function: cst.CSTNode, backward: cst.Call) -> None:
    if sum(1 for _ in method_calls(function, "backward")) != 1:
        raise StepError("several losses go backward in one function")
    if any(arg.keyword is None for arg in backward.args):
        raise StepError("the backward pass is given a gradient")
    for node in descendants_here(function):
        if isinstance(node, cst.Attribute) and node.attr.value == "grad" and _is_gradient(source, node):
            raise StepError("gradients are read by the script itself")
        if isinstance(node, cst.Call) and callee_name(node) in ("binary_cross_entropy",):
            raise StepError("binary_cross_entropy is refused under autocast; use its with_logits form")
    for reference in source.references:
        if reference.name in ("torch.nn.BCELoss", "torch.nn.modules.loss.BCELoss"):
            raise StepError("BCELoss is refused under autocast; use BCEWithLogitsLoss")


def _is_gradient(source: Source, node: cst.Attribute) -> bool:
    """Tell whether `.grad` is a tensor's gradient that is used, not a function's name or one that is cleared."""
    parent = source.parent(node)
    if isinstance(parent, cst.AssignTarget):
        return False
    name = source.qualified(node) or ""
    return name == "torch.autograd.grad" or not name.startswith("torch.")


def _clips(source: Source, function: cst.CSTNode, after: int) -> Iterator[Statement]:
    suites: set[int] = set()
    for node in descendants_here(function):
        if isinstance(node, cst.Call) and callee_name(node) in _CLIPS and source.span(node)[0] > after:
            statement = statement_of(source, node)
            if statement is None:
                raise StepError("gradients are clipped in a one-line suite")
            parent = source.parent(statement)
            if id(parent) not in suites:
                suites.add(id(parent))
                yield statement


def forward_pass(source: Source, backward: cst.CSTNode, loss: cst.BaseExpression) -> tuple[Statement, Statement]:
    """Return the first and last statement of the forward pass. Raises StepError when it cannot be found."""
    if _calls_model(source, loss) or _calls_loss(source, loss):
        raise StepError("the loss is computed in the statement that goes backward")
    needed = set(_loaded(source, loss))
    at: cst.CSTNode | None = statement_of(source, backward)
    if at is None:
        raise StepError("the loss goes backward in a one-line suite")
    while at is not None and not isinstance(at, (cst.FunctionDef, cst.Module)):
        suite = suite_of(source, at)
        if at in suite:
            before = suite[: suite.index(at)]
            last = max((i for i, statement in enumerate(before) if _stored(source, statement) & needed), default=None)
            if last is not None:
                return _region(source, before[: last + 1], needed)
        at = source.parent(at)
    raise StepError("the statements that compute the loss are not beside the backward pass")


def _region(source: Source, statements: list[cst.CSTNode], needed: set[str]) -> tuple[Statement, Statement]:
    """Return the first statement that calls the model (or only a loss), of those the loss depends on, and the last."""
    needed = set(needed)
    slice_: list[int] = []
    for index in range(len(statements) - 1, -1, -1):
        if _stored(source, statements[index]) & needed:
            slice_.append(index)
            needed |= set(_loaded(source, statements[index]))
    for computes in (_calls_model, _calls_loss):
        firsts = [index for index in slice_ if computes(source, statements[index])]
        if firsts:
            first, last = statements[min(firsts)], statements[-1]
            _check_region(statements[min(firsts) :])
            assert isinstance(first, (cst.SimpleStatementLine, cst.BaseCompoundStatement))
            assert isinstance(last, (cst.SimpleStatementLine, cst.BaseCompoundStatement))
            return first, last
    raise StepError("the call of the model cannot be told from the others")


def _check_region(statements: list[cst.CSTNode]) -> None:
    for statement in statements:
        for node in descendants_here(statement):
            if isinstance(node, cst.Call) and callee_name(node) in ("step", "backward"):
                raise StepError("something steps between the model's call and the loss")


def _stored(source: Source, statement: cst.CSTNode) -> set[str]:
    return {
        node.value for node in descendants_here(statement) if isinstance(node, cst.Name) and node in source.tree.stored
    }


def _loaded(source: Source, node: cst.CSTNode) -> Iterator[str]:
    for found in descendants(node):
        if isinstance(found, cst.Name) and found not in source.tree.stored:
            yield found.value


def _calls_model(source: Source, statement: cst.CSTNode) -> bool:
    for call in descendants_here(statement):
        if not isinstance(call, cst.Call):
            continue
        name = last_name(call.func)
        if name[:1].isupper() or words_of(name) & _MAKING_WORDS:
            continue
        on = call.func.value if isinstance(call.func, cst.Attribute) else None
        if on is not None and not (isinstance(on, cst.Name) and on.value == "self") and name != "forward":
            if not words_of(last_name(on)) & _MODEL_WORDS or name in ("train", "eval", "zero_grad", "parameters"):
                continue
            return True
        if name and (words_of(name) & _MODEL_WORDS or _is_module(source, name)):
            return True
    return False


def _is_module(source: Source, name: str) -> bool:
    """Tell whether a variable holds an instance of a module class of this file or of torch.nn."""
    for value in assigned_values(source, name):
        made = peeled(value)
        if isinstance(made, cst.Call):
            if (source.qualified(made.func) or "").startswith("torch.nn.") and not (
                last_name(made.func).endswith("Loss")
            ):
                return True
            if isinstance(made.func, cst.Name) and _is_module_class(source, made.func):
                return True
    return False


def _is_module_class(source: Source, name: cst.Name) -> bool:
    return any(
        isinstance(binding.node, cst.ClassDef)
        and any(last_name(base.value) in ("Module", "Sequential") for base in binding.node.bases)
        for binding in source.scope(name).bindings_of(name.value)
    )


def _calls_loss(source: Source, statement: cst.CSTNode) -> bool:
    for call in descendants_here(statement):
        if isinstance(call, cst.Call):
            if (source.qualified(call.func) or "").startswith("torch.nn.functional."):
                return True
            if words_of(last_name(call.func)) & _LOSS_WORDS:
                return True
    return False
