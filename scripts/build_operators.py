"""Writes `src/jumar/operators/data/computed.json` and `schemas.txt` from the operators of the installed PyTorch.

    python scripts/build_operators.py [--check]

The vendor's custom operators are added from the table `npu_custom_operators.json`. With `--check` nothing is written;
the exit code is 1 when a file is not what the script would write.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed._functional_collectives  # registers operators

from jumar.operators.computed import WORDS, Computed, merged, of_overload, of_schema
from jumar.operators.data import FOLDER

NAMESPACES = ("aten", "prims", "quantized", "c10d", "_c10d_functional", "profiler")
CUSTOM = "npu_custom_operators.json"


def overloads() -> Iterator[Any]:
    """Yield every overload of `NAMESPACES`."""
    for full in sorted(torch._C._dispatch_get_all_op_names()):
        namespace, _, rest = full.partition("::")
        if namespace in NAMESPACES:
            base, _, overload = rest.partition(".")
            yield getattr(getattr(getattr(torch.ops, namespace), base), overload or "default")


def custom_schemas() -> list[str]:
    """Return the schemas of the vendor's operators that PyTorch can read."""
    folder = next(FOLDER.parents[1].rglob(CUSTOM)).parent
    texts = json.loads((folder / CUSTOM).read_text("utf-8"))["schemas"]
    return [f"npu::{text.replace('Dimname', 'str')}" for text in texts]  # PyTorch reads no named dimensions here


def collected() -> Iterator[tuple[str, str, str, Computed]]:
    """Yield name, overload, schema and traits of every operator."""
    for item in overloads():
        schema = item._schema
        traits, writes = of_overload(item)
        if torch._C._dispatch_has_kernel_for_dispatch_key(item.name(), "CompositeImplicitAutograd"):
            traits |= {"composite"}
        yield schema.name, schema.overload_name, str(schema), Computed(traits, writes)
    for text in custom_schemas():
        schema = torch._C.parse_schema(text)
        yield schema.name, schema.overload_name, str(schema), of_schema(schema)


def made() -> tuple[str, str]:
    """Return the texts of `computed.json` and `schemas.txt`."""
    words = list(WORDS)
    profiles: dict[tuple[int, tuple[int, ...]], int] = {}
    found: dict[str, dict[str, Computed]] = {}
    lines = []
    for name, overload, text, computed in collected():
        found.setdefault(name, {})[overload] = computed
        lines.append(text)

    def number(item: Computed) -> int:
        bits = sum(1 << words.index(word) for word in item.traits)
        return profiles.setdefault((bits, item.writes), len(profiles))

    table = {name: {overload: number(item) for overload, item in items.items()} for name, items in found.items()}
    bases = {
        name.partition("::")[2]: number(merged(items))
        for space in ("npu::", "aten::")
        for name, items in sorted(found.items())
        if name.startswith(space)
    }
    torch_version = torch.__version__.partition("+")[0]
    header = {"source": f"PyTorch {torch_version}: schemas and tags; {CUSTOM}", "made_by": "scripts/build_operators.py"}
    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(table[name])}" for name in sorted(table))
    numbers = json.dumps([[bits, list(writes)] for bits, writes in profiles])
    text = (
        f'{{\n"header": {json.dumps(header)},\n"torch": {json.dumps(torch_version)},\n"traits": {json.dumps(words)},\n'
        f'"profiles": {numbers},\n"bases": {json.dumps(bases)},\n"operators": {{\n{rows}\n}}\n}}\n'
    )
    return text, "\n".join([f"# Schemas of PyTorch {torch_version} and of {CUSTOM}", *sorted(lines)]) + "\n"


def main() -> int:
    """Write the files, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = []
    for name, text in zip(("computed.json", "schemas.txt"), made(), strict=True):
        path = Path(FOLDER / name)
        if check and (not path.exists() or path.read_text("utf-8") != text):
            stale.append(name)
        elif not check:
            path.write_text(text, "utf-8")
    if stale:
        sys.stderr.write(f"not fresh: {', '.join(stale)}. Run python scripts/build_operators.py.\n")
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main())
