"""`OnnxReport` and its findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jumar.base.findings import Finding, Json, Location
from jumar.base.text import counted, listing
from jumar.export.onnx.atc import Judgement, table
from jumar.export.onnx.compare import Check, Difference
from jumar.export.onnx.options import OnnxOptions
from jumar.export.onnx.weights import Loaded
from jumar.export.rules import (
    ATC_OPERATOR_NOT_TAKEN,
    ATC_OPERATOR_UNKNOWN,
    ONNX_DIFFERS,
    ONNX_DOES_NOT_RUN,
    ONNX_TRACED_VALUE,
)

_SHOWN = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxReport:
    """What was written and how it compares."""

    output: Path
    data: Path | None
    """The weights, where they have a file of their own."""
    size_bytes: int
    """Of both files."""
    opset: int
    exporter: str
    """`torch.export`, or `TorchScript` (`dynamo=False`)."""
    exporter_reason: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    open_axes: Mapping[str, Mapping[int, str]]
    weights: Loaded | None
    differences: tuple[Difference, ...] | None
    """For the example inputs; None: they were not compared, for `not_compared`."""
    not_compared: str
    other_sizes: tuple[Check, ...]
    """Runs with other sizes of the open axes."""
    not_tried: tuple[str, ...]
    """Open axes for which no other size was run, with the reason."""
    atc: Judgement
    findings: tuple[Finding, ...]


def findings(
    checks: Sequence[Check], traced: Sequence[str], atc: Judgement, options: OnnxOptions, output: Path
) -> Iterator[Finding]:
    """Yield what is wrong with a file: first its values, then what ATC says of it."""
    for check in checks:
        yield from _of_check(check, options, output)
    if traced:
        yield _of_trace(traced, output)
    yield from _of_atc(atc, output)


def _of_check(check: Check, options: OnnxOptions, output: Path) -> Iterator[Finding]:
    at = f" at {', '.join(f'{name}={size}' for name, size in check.sizes.items())}" if check.sizes else ""
    if check.is_fault:
        yield ONNX_DOES_NOT_RUN.finding(
            f"The ONNX model was not compared with PyTorch{at}: {check.reason}.",
            where=Location(path=str(output)),
            evidence={"sizes": dict(check.sizes), "reason": check.reason},
            why="PyTorch takes these inputs. A file that stops elsewhere, too, is of no use.",
            action=(
                "Look for sizes that forward turns into Python numbers, or leave the axis fixed."
                if check.sizes
                else "Ask for an older --opset, or for the newest onnxruntime."
            ),
        )
    tolerance = f"{options.absolute_tolerance:g} + {options.relative_tolerance:g} · |reference|"
    for item in check.differences or ():
        if item.num_beyond:
            yield ONNX_DIFFERS.finding(
                f"Output {item.output} ({item.name}) of the ONNX model {_how(item)}{at} (tolerance {tolerance}).",
                where=Location(path=str(output)),
                evidence={
                    "output": item.output, "greatest_absolute": item.greatest_absolute, "num_beyond": item.num_beyond,
                    "shape": list(item.shape), "reference_shape": list(item.reference_shape),
                    "sizes": dict(check.sizes),
                },
                why="The file runs, and it computes other values than the model.",
                action="Look for branches on tensor values and for constants taken from the example inputs.",
            )  # fmt: skip


def _how(item: Difference) -> str:
    if item.shape != item.reference_shape:
        return f"has the shape {item.shape} where PyTorch's has {item.reference_shape}"
    return f"differs in {item.num_beyond:,} elements by up to {item.greatest_absolute:.4g}"


def _of_trace(places: Sequence[str], output: Path) -> Finding:
    path, _, line = places[0].rpartition(":")
    return ONNX_TRACED_VALUE.finding(
        f"{output.name} holds what the example inputs made of {counted(len(places), 'place')} in the model.",
        where=Location(path=path, line=int(line)),
        evidence={"places": list(places)},
        why="The TorchScript exporter follows one run: a branch that depends on a tensor is fixed in the file.",
        action="Compare the file on more inputs, or write the place with torch.where.",
        confidence="possible",
    )


def _of_atc(atc: Judgement, output: Path) -> Iterator[Finding]:
    known = table()
    by_table = f"by the registrations of CANN's operator packages of {known.date}; ATC was not run"
    is_newer = atc.opset > known.newest
    if is_newer and atc.not_taken:
        kinds: list[Json] = list(atc.not_taken)
        yield ATC_OPERATOR_NOT_TAKEN.finding(
            f"ATC takes {counted(len(kinds), 'operator type')} of {output.name} up to an older operator set than "
            f"{atc.opset}: {listing(atc.not_taken, _SHOWN)} ({by_table}).",
            where=Location(path=str(output)),
            evidence={"opset": atc.opset, "newest": known.newest, "operators": kinds, "source": known.source},
            why="ATC looks an operator up under the operator set of the file.",
            action=f"Export with --opset {known.newest} or an older one; early CANN releases take 11 only.",
        )
    for kind, (number, sets) in () if is_newer else atc.not_taken.items():
        yield ATC_OPERATOR_NOT_TAKEN.finding(
            f"ATC does not take {kind} ({counted(number, 'node')}) at the operator set {atc.opset}, but at {sets} "
            f"({by_table}).",
            where=Location(path=str(output), operator=kind),
            evidence={
                "operator": kind,
                "num_nodes": number,
                "opset": atc.opset,
                "taken_at": sets,
                "source": known.source,
            },
            why="ATC stops at an operator that is not registered for the file's operator set.",
            action=_instead(kind) or f"Export with an operator set of {sets}.",
        )
    for kind, number in atc.unknown.items():
        yield ATC_OPERATOR_UNKNOWN.finding(
            f"Whether ATC takes {kind} ({counted(number, 'node')}) is not known: it is not in the table ({by_table}).",
            where=Location(path=str(output), operator=kind),
            evidence={"operator": kind, "num_nodes": number, "opset": atc.opset, "source": known.source},
            why="The table holds what CANN's open operator packages register; others may come with a release.",
            action=_instead(kind) or "Look it up in the operator list of your CANN release, or write a plug-in for it.",
            confidence="possible",
        )


def _instead(kind: str) -> str:
    instead = table().instead.get(kind)
    return f"Use instead: {instead}." if instead else ""
