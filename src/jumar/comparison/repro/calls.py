"""Writes the steps of a case as the function `calculate` of its script."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jumar.capture.notes.operators import operator_info
from jumar.comparison.replay.rebuilt.execute import scalars_as_elements
from jumar.comparison.replay.rebuilt.invocation import TensorAt
from jumar.comparison.replay.rebuilt.substitutes import SUBSTITUTES, source_of
from jumar.comparison.repro.case import Case, Step
from jumar.comparison.repro.literals import called, literal, quoted
from jumar.recording import TensorRow

INDENT = "    "


def label(case: Case, position: int) -> str:
    """Return what the names of a step's tensors begin with: nothing in a case of one operator."""
    return f"{position}." if len(case.steps) > 1 else ""


def tensor_name(case: Case, position: int, tensor: TensorRow) -> str:
    """Return the name in the script of a tensor that comes from the file: the argument's name in the schema."""
    place, _, item = tensor.name.partition(".")[2].partition(".")
    arguments = case.steps[position].inputs.invocation.operator._schema.arguments
    is_number = place.isdigit() and int(place) < len(arguments)
    given = arguments[int(place)].name if is_number and not tensor.name.startswith("output") else place
    if tensor.name.startswith("output"):  # a mask that a random operator returned, read back
        given = f"recorded_{place}"
    return label(case, position) + (f"{given}.{item}" if item else given)


def calculate_source(case: Case) -> str:
    """Return the source of `calculate(t, f, device)`: tensors by name in, outputs by name out."""
    lines = [
        "def calculate(t, f, device):",
        '    """Return the outputs by name. `t` holds tensors, `f` says what a dtype becomes (float64, or itself)."""',
        "    made = {}",
    ]
    for position in range(len(case.steps)):
        lines += _step_lines(case, position)
    lines.append("    return made")
    return "\n".join(lines)


def substitutes_source(case: Case) -> str:
    """Return the source of what stands for operators that a CPU does not have; empty when there are none."""
    used = {_substitute_name(step) for step in case.steps} & SUBSTITUTES.keys()
    sources = dict.fromkeys(source_of(SUBSTITUTES[name]) for name in sorted(used))
    plain = [source.replace("**a: Any) -> tuple[Any, ...]", "**a)") for source in sources]
    return "\n\n".join(plain)


def _substitute_name(step: Step) -> str:
    return step.inputs.invocation.name.partition(".")[0]


def _step_lines(case: Case, position: int) -> Iterator[str]:
    step = case.steps[position]
    invocation = step.inputs.invocation
    operator = "torch.ops." + str(invocation.operator).replace("::", ".")
    arguments = dict(_arguments(case, position))
    substitute = SUBSTITUTES.get(_substitute_name(step))
    keyword = {argument.name for argument in invocation.operator._schema.arguments if argument.kwarg_only}
    gap = _first_gap(step)
    given = [f"{name}={source}" if name in keyword or name in gap else source for name, source in arguments.items()]
    if len(case.steps) > 1:
        yield f"{INDENT}# {invocation.name}, {step.row.module_path or 'no module'}"
    if substitute is not None:
        yield f'{INDENT}if torch.device(device).type == "cpu":'
        by_name = [f"{name}={source}" for name, source in arguments.items()]
        yield f"{INDENT * 2}result = {called(substitute.__name__, by_name, INDENT * 2)}"
        yield f"{INDENT}else:"
        yield f"{INDENT * 2}result = {called(operator, given, INDENT * 2)}"
    else:
        yield f"{INDENT}result = {called(operator, given, INDENT)}"
    prefix = quoted(f"{label(case, position)}output")
    if written := _written(step, arguments):
        yield f"{INDENT}made |= named({prefix}, [{', '.join(written)}])"
    yield f"{INDENT}made |= named({prefix}, result)"


def _first_gap(step: Step) -> set[str]:
    """Return the arguments after the first that is left at its default: they are given by keyword."""
    given = step.inputs.invocation.values
    names = [argument.name for argument in step.inputs.invocation.operator._schema.arguments]
    first = next((i for i, name in enumerate(names) if name not in given), len(names))
    return set(names[first:])


def _written(step: Step, arguments: dict[str, str]) -> list[str]:
    """Return the arguments that the operator writes and does not return."""
    info = operator_info(step.inputs.invocation.operator)
    if not info.writes or info.returns_writes:
        return []
    return [arguments.get(info.names[position], "None") for position in info.writes]


def _arguments(case: Case, position: int) -> Iterator[tuple[str, str]]:
    inputs = case.steps[position].inputs
    kinds = {argument.name: str(argument.real_type) for argument in inputs.invocation.operator._schema.arguments}
    for name, value in scalars_as_elements(inputs).items():
        if name in ("pin_memory", "generator"):
            continue
        if name == "half_to_float" and value:
            yield name, "f(torch.float16) is torch.float16"
        elif "Device" in kinds[name]:
            yield name, "None" if value is None else "device"
        else:
            yield name, _source(case, position, value)


def _source(case: Case, position: int, value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_source(case, position, item) for item in value)}]"
    if not isinstance(value, TensorAt):
        return literal(value)
    link = case.steps[position].links.get(value.row.name)
    if link is not None:
        return f"made[{quoted(label(case, link.step) + link.output)}]"
    return f"t[{quoted(tensor_name(case, position, value.row))}]"
