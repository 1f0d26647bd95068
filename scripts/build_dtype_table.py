"""Make the table of dtype limits again, when a new CANN or op-plugin comes out.

    python scripts/build_dtype_table.py SOURCES [--out src/jumar/soc/data]

SOURCES holds checked-out trees of the public repositories `ops-math` and `ops-nn` (hicann), whose aclnn functions
check dtypes, and of `op-plugin` (Ascend), which says with which aclnn function an aten overload calls and which
argument goes where. Only facts are taken: names, and lists of dtypes.

An argument counts when it is handed on as it is, and every function that may get it has a list that could be read;
what the lists of several functions allow is united. Lists are made milder where they may be incomplete: halves go
with float32, and what the vendor's API list names as supported (`npu_apis.json`) is added, except for expm1, whose
refusal of float64 users have reported. Lists that refuse nothing of note are left out.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aclnn_checks import FIRST, LATER, Columns, Function, functions, last_word, read_library, without_comments

from jumar.soc.support.data import FOLDER, kinds, table

HEADER = {
    "source": "Parameter checks of the aclnn functions in the CANN operator libraries ops-math and ops-nn; which "
    "function an aten overload calls: Ascend/op-plugin op_plugin_functions.yaml and ops/opapi",
    "licence": "CANN Open Software License 2.0, BSD-3-Clause (facts extracted; no source text)",
    "date": "2026-08-22",
    "made_by": "scripts/build_dtype_table.py",
}
COMMON = ("FLOAT", "FLOAT16", "BF16", "DOUBLE", "INT8", "UINT8", "INT16", "INT32", "INT64", "BOOL", "COMPLEX64",
          "COMPLEX128")  # fmt: skip
KNOWN = (*COMMON, "COMPLEX32", "UINT16", "UINT32", "UINT64", "FLOAT8_E5M2", "FLOAT8_E4M3FN", "HIFLOAT8")
"""Dtypes with a meaning in PyTorch."""

LISTED_NAMES = {"fp64": "DOUBLE", "fp32": "FLOAT", "fp16": "FLOAT16", "bf16": "BF16"}
NOT_LOOKED_AT = frozenset({"index", "target", "mask", "indices"})
ALIASES = frozenset({"aclnnMatmulWeightNz", "aclnnBatchMatMulWeightNz", "aclnnAddmmWeightNz"})
"""Functions for private formats, beside the one for plain tensors."""

_CUBE: Columns = {FIRST: ["FLOAT", "FLOAT16"], LATER: ["FLOAT", "FLOAT16", "BF16"]}
BY_HAND: Mapping[str, Function] = {
    # Their checks are spread over classes per chip; the pages of the functions say the same of all.
    **{
        name: Function(parameters, dict.fromkeys(parameters, _CUBE))
        for name, parameters in {
            "aclnnMm": ("self", "mat2"),
            "aclnnMatmul": ("self", "mat2"),
            "aclnnBatchMatMul": ("self", "mat2"),
            "aclnnMv": ("self", "vec"),
            "aclnnAddmm": ("self", "mat1", "mat2"),
            "aclnnInplaceAddmm": ("selfRef", "mat1", "mat2"),
            "aclnnAddbmm": ("self", "batch1", "batch2"),
            "aclnnInplaceAddbmm": ("selfRef", "batch1", "batch2"),
            "aclnnBaddbmm": ("self", "batch1", "batch2"),
            "aclnnInplaceBaddbmm": ("selfRef", "batch1", "batch2"),
            "aclnnConvolution": ("input", "weight", "bias"),
            "aclnnConvolutionBackward": ("gradOutput", "input", "weight"),
        }.items()
    },
    # op-plugin's test_fftshift.py rolls complex64 on Ascend910B.
    "aclnnRoll": Function(
        ("x", "out"),
        {
            "x": {
                FIRST: ["FLOAT", "FLOAT16", "INT8", "UINT8", "INT32", "UINT32", "BOOL", "INT64"],
                LATER: [
                    "FLOAT",
                    "FLOAT16",
                    "INT8",
                    "UINT8",
                    "INT32",
                    "UINT32",
                    "BOOL",
                    "INT64",
                    "BF16",
                    "INT16",
                    "COMPLEX64",
                ],
            }
        },
    ),
    # Not the usual form of check.
    "aclnnRelu": Function(
        ("self", "out"),
        {
            "self": {
                FIRST: ["FLOAT", "FLOAT16", "INT8", "UINT8", "INT32", "INT64"],
                LATER: ["FLOAT", "FLOAT16", "INT8", "UINT8", "INT32", "INT64", "BF16"],
            }
        },
    ),
}
CALLS_BY_HAND = {
    "convolution": "aclnnConvolution",
    "bmm": "aclnnBatchMatMul",
    "bmm.out": "aclnnBatchMatMul",
    "mv": "aclnnMv",
}
"""Overloads whose C++ chooses between functions in ways that are not followed."""

HANDED_ON: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "bucketize.Scalar": ("searchsorted.Scalar", {"boundaries": "sorted_sequence"}),
    "bucketize.Tensor": ("searchsorted.Tensor", {"self": "self", "boundaries": "sorted_sequence"}),
    "bucketize.Tensor_out": ("searchsorted.Tensor_out", {"self": "self", "boundaries": "sorted_sequence"}),
}
"""Overloads that chips before Ascend950 hand on to another one, whose limits hold; only later ones have their own."""
NOT_ON_FIRST = frozenset({"im2col", "im2col.out"})
"""Overloads whose function the first chips do not call: they take an older kernel, whose limits are not known."""

Call = tuple[str, list[str | None]]
"""An aclnn function, and which of the overload's arguments each of its own is; None: something else."""


@dataclass(frozen=True, slots=True)
class Overload:
    """One aten overload of op-plugin's list."""

    arguments: tuple[str, ...]
    """Names, in order."""
    tensors: frozenset[str]
    """Names of arguments that are tensors and are not results to be filled."""
    is_out: bool
    call: Call | None
    """What the list itself says is called."""


def main() -> None:
    """Read the sources, write the packaged table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path)
    parser.add_argument("--out", type=Path, default=FOLDER)
    options = parser.parse_args()
    library = read_library(options.sources / "ops-math") | read_library(options.sources / "ops-nn")
    plugin = options.sources / "op-plugin" / "op_plugin"
    overloads = read_overloads((plugin / "config" / "op_plugin_functions.yaml").read_text(encoding="utf-8"))
    calls = read_calls(plugin / "ops" / "opapi", overloads)
    write(options.out / "npu_dtypes.json", as_taken(dict(limits(overloads, calls, {**library, **BY_HAND}))))


def as_taken(rows: Mapping[str, dict[str, list[Any]]]) -> dict[str, dict[str, list[Any]]]:
    """Return the limits with those of the kernels that the chips really take."""
    found = {name: dict(arguments) for name, arguments in rows.items()}
    for name, (other, arguments) in HANDED_ON.items():
        found[name] = {own: rows[other][its] for own, its in arguments.items() if its in rows.get(other, {})}
    for name in NOT_ON_FIRST & found.keys():
        found[name] = {argument: [*row[:2], None, row[3]] for argument, row in found[name].items()}
    return found


def read_overloads(text: str) -> dict[str, Overload]:
    """Return the overloads of `op_plugin_functions.yaml` by name."""
    found: dict[str, Overload] = {}
    for block in re.split(r"\n  - func: ", text)[1:]:
        match = re.match(r"([\w.]+)\((.*?)\) -> ", block, re.DOTALL)
        if not match or match[1] in found:
            continue
        declared = [item.strip() for item in re.split(r",\s*(?![^\[]*\])", match[2]) if item.strip(" *")]
        names = tuple(item.split("=")[0].split()[-1] for item in declared)
        inplace = match[1].partition(".")[0].endswith("_")
        tensors = frozenset(
            name
            for name, item in zip(names, declared, strict=True)
            if item.startswith("Tensor") and ("!" not in item or inplace)
        )
        found[match[1]] = Overload(
            names, tensors, any("!" in item for item in declared) and not inplace, _listed_call(block, names)
        )
    return found


def _listed_call(block: str, names: tuple[str, ...]) -> Call | None:
    match = re.search(r"exec:\s*(aclnn\w+)\s*((?:,[^\n]*)?)", block)
    if not match:
        return None
    given = [item.strip() for item in match[2].split(",") if item.strip()]
    return match[1], [name if name in names else None for name in given or names]


def read_calls(folder: Path, overloads: Mapping[str, Overload]) -> dict[str, list[Call]]:
    """Return the aclnn calls that the C++ of each overload may make, by overload."""
    by_function: dict[str, list[str]] = {}
    for name, overload in overloads.items():
        base = name.partition(".")[0]
        by_function.setdefault(f"{base}_out" if overload.is_out else base, []).append(name)
    found: dict[str, list[Call]] = {}
    for file in sorted(folder.rglob("*.cpp")):
        bodies = [
            (
                name,
                [last_word(item) for item in re.split(r",(?![^<]*>)", parameters)] if parameters.strip() else [],
                body,
            )
            for name, parameters, body in functions(
                without_comments(file.read_text(encoding="utf-8", errors="replace"))
            )
        ]
        for name, parameters, body in bodies:
            for full in by_function.get(name, ()):
                arguments = overloads[full].arguments
                if len(arguments) == len(parameters):
                    names = dict(zip(parameters, arguments, strict=True))
                    found.setdefault(full, []).extend(_calls(bodies, body, names, 0))
    return found


def _calls(bodies: list[tuple[str, list[str], str]], body: str, names: Mapping[str, str], depth: int) -> Iterator[Call]:
    for function, arguments in re.findall(
        r"EXEC_NPU_(?:NO_FORMAT_CHECK_)?CMD\(\s*(aclnn\w+)\s*,((?:[^()]|\([^()]*\))*)\)", body
    ):
        yield function, [names.get(item.strip()) for item in arguments.split(",")]
    if depth == 3:
        return
    for called, parameters, inner in bodies:
        for arguments in () if inner is body else re.findall(rf"(?<![:\w]){called}\(((?:[^()]|\([^()]*\))*)\)", body):
            given = [item.strip() for item in arguments.split(",")]
            if len(given) == len(parameters):
                handed = {own: names[item] for own, item in zip(parameters, given, strict=True) if item in names}
                yield from _calls(bodies, inner, handed, depth + 1)


def limits(
    overloads: Mapping[str, Overload], calls: Mapping[str, list[Call]], library: Mapping[str, Function]
) -> Iterator[tuple[str, dict[str, list[Any]]]]:
    """Yield overload and limits by argument: function, its parameter, the two lists."""
    for name, overload in sorted(overloads.items()):
        if name not in kinds():
            continue
        possible = [call for call in (overload.call, *calls.get(name, ())) if call and call[0] not in ALIASES]
        if name in CALLS_BY_HAND:
            function = CALLS_BY_HAND[name]
            possible = [(function, list(library[function].parameters))]
        rows = {
            argument: row
            for argument in overload.arguments
            if argument in overload.tensors - NOT_LOOKED_AT and (row := _row(name, argument, possible, library))
        }
        if rows:
            yield name, rows


def _row(name: str, argument: str, possible: list[Call], library: Mapping[str, Function]) -> list[Any] | None:
    united: Columns = {FIRST: [], LATER: []}
    last: tuple[str, str] | None = None
    for function, arguments in possible:
        parameters = library[function].parameters if function in library else ()
        for position, given in enumerate(arguments):
            if given != argument:
                continue
            parameter = parameters[position] if position < len(parameters) else ""
            columns = library[function].checks.get(parameter) if parameter else None
            if columns is None or not columns[LATER]:
                return None
            last = function, parameter
            for column, dtypes in united.items():
                dtypes += [item for item in columns[column] if item not in dtypes]
    if last is None:
        return None
    first, later = (_milder(name, argument, united[column], column) for column in (FIRST, LATER))
    is_limit = not set(COMMON) <= set(later) or not set(COMMON) - {"BF16"} <= set(first)
    return [*last, first, later] if is_limit else None


def _milder(name: str, argument: str, dtypes: list[str], column: str) -> list[str]:
    found = [item for item in dtypes if item in KNOWN]
    found += sorted(_listed_dtypes(name, argument) - set(found))
    if "FLOAT" in found:
        found += [item for item in ("FLOAT16", "BF16") if item not in found]
    return [item for item in found if column == LATER or item != "BF16"]


def _listed_dtypes(name: str, argument: str) -> set[str]:
    """Return what the vendor's API list names as supported for the function of this overload."""
    base = name.partition(".")[0]
    if argument not in ("self", "input") or base.endswith("_") or base == "expm1":
        return set()
    spaces = ("torch", "torch.nn.functional", "torch.Tensor", "torch.special", "torch.linalg")
    entries = [entry for space in spaces for entry in table("npu_apis")["apis"].get(f"{space}.{base}", ())]
    named = {
        dtype
        for entry in entries
        if "2.13" in entry["versions"] and entry.get("kind") == "supported-named"
        for dtype in entry.get("dtypes", ())
    }
    return {LISTED_NAMES.get(dtype, dtype.upper()) for dtype in named}


def write(target: Path, rows: Mapping[str, Mapping[str, list[Any]]]) -> None:
    """Write the table: each list once, and rows that refer to them by number."""
    lists: list[list[str]] = []
    operators: dict[str, dict[str, list[Any]]] = {}
    for name, arguments in rows.items():
        for argument, (function, parameter, *columns) in arguments.items():
            known = [dtypes for dtypes in columns if dtypes is not None]
            lists += [dtypes for index, dtypes in enumerate(known) if dtypes not in [*lists, *known[:index]]]
            numbers = [None if dtypes is None else lists.index(dtypes) for dtypes in columns]
            operators.setdefault(name, {})[argument] = [function, parameter, *numbers]
    body = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in operators.items())
    shown = ",\n".join(json.dumps(dtypes) for dtypes in lists)
    header = json.dumps(HEADER, indent=0)
    text = f'{{\n"header": {header},\n"lists": [\n{shown}\n],\n"operators": {{\n{body}\n}}\n}}\n'
    target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
