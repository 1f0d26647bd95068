"""Make the support tables of `jumar.device` again, when a new torch_npu or PyTorch comes out.

    python scripts/build_support_tables.py RAW [--out src/jumar/soc/data]

RAW is a folder with `npu_native_api_support.json`, `npu_operators.json`, `torch_npu_public_api.json`
and `cuda_npu_accelerator_api_map.json`, extracted from the vendor's repositories as
`src/jumar/soc/data/README.md` describes. PyTorch's own part is read from the installed torch
(op_db needs the package `expecttest`), so run this with the torch release the tables should name.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # the plain dispatcher, without any device's registrations

import torch
import trace_pytorch

VENDOR_LICENCE = "BSD-3-Clause (facts extracted; no source text)"
VENDOR_DATE = "2026-08-21"


def main() -> None:
    """Read the raw tables and the installed PyTorch, write the five packaged tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("raw", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "src" / "jumar" / "soc" / "data")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    operators = operator_table(_read(options.raw / "npu_operators.json"))
    apis = api_table(_read(options.raw / "npu_native_api_support.json"))
    public = _read(options.raw / "torch_npu_public_api.json")
    names = name_table(_read(options.raw / "cuda_npu_accelerator_api_map.json"), public)
    for name, table in (
        ("npu_operators.json", operators),
        ("npu_apis.json", apis),
        ("npu_names.json", names),
        ("torch_npu_public_api.json", signature_table(public)),
        ("pytorch_operators.json", pytorch_table(operators, apis)),
    ):
        _write(options.out / name, table)


def operator_table(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return operator → {route: [first, last]}, both ends minor releases of PyTorch 2."""
    every = [_minor(version) for version in raw["all_versions"]]
    return {
        "header": _header(
            "Ascend/op-plugin op_plugin/config/op_plugin_functions.yaml; Ascend/pytorch "
            "torch_npu/csrc/aten/npu_native_functions.yaml"
        ),
        "last_minor": every[-1],
        "official": {name: _routes(entry, every) for name, entry in sorted(raw["official"].items())},
        "adapter": sorted(raw["native_supported"]),
        "custom": {
            name: _routes({key: value for entry in entries for key, value in entry.items()}, every)
            for name, entries in sorted(raw["custom"].items())
        },
        "adapter_custom": sorted({schema.partition("(")[0] for schema in raw["native_custom"]}),
    }


def _routes(entry: Mapping[str, Any], every: list[int]) -> dict[str, list[int]]:
    routes = ("acl_op", "op_api", "sparse", "sparse_csr")
    return {route: _interval(entry[route], every) for route in routes if route in entry}


def _interval(value: str | list[str], every: list[int]) -> list[int]:
    if value == "all_version":
        return [every[0], every[-1]]
    items = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    minors = [every[-1] if item == "newest" else _minor(item) for item in items]
    if isinstance(value, str) and minors != list(range(minors[0], minors[-1] + 1)):
        raise ValueError(f"a list of versions with a gap: {value}")
    return [minors[0], minors[-1]]


def _minor(version: str) -> int:
    return int(version.removeprefix("v").split(".")[1])


def api_table(raw: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return API → entries, each valid for the torch versions it names; equal versions share an entry."""
    versions = sorted(raw, key=_minor)
    merged: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for version in versions:
        for name, entry in raw[version].items():
            facts = {
                "on": [column for column, ticked in sorted(entry["supported"].items()) if ticked],
                "limits": bool(entry.get("has_limits")),
                "dtypes": sorted(entry.get("dtypes_named", [])),
                "kind": entry.get("limit_kind") or "",
                "npu_name": entry.get("npu_name") or "",
            }
            same = next((known for known in merged[name] if known["facts"] == facts), None)
            if same is None:
                merged[name].append({"versions": [version], "facts": facts})
            else:
                same["versions"].append(version)
    return {
        "header": _header("Ascend/pytorch docs/zh/api/native_api"),
        "versions": versions,
        "columns": ["A2", "A3", "950"],
        "apis": {
            name: [{"versions": e["versions"]} | {k: v for k, v in e["facts"].items() if v} for e in entries]
            for name, entries in sorted(merged.items())
        },
    }


def name_table(cuda_map: Mapping[str, Any], public: Mapping[str, str | None]) -> dict[str, Any]:
    """Return which names exist: torch.npu, torch_npu, torch.accelerator, and what torch.cuda maps to."""
    return {
        "header": _header("torch 2.13 and torch_npu 2.13 wheels; Ascend/pytorch test/torch_npu_schema.json"),
        "cuda": {
            row["cuda"]: {"npu": row["npu"], "accelerator": row["acc"], "other_parameters": row["sigdiff"]}
            for row in cuda_map["rows"]
        },
        "torch_npu": sorted(name for name in public if name.startswith("torch_npu.")),
        "torch_npu_npu": sorted(set(cuda_map["npu_public"]) - {"*"}),
        "accelerator": sorted(cuda_map["acc"]),
    }


def signature_table(public: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the vendor's public names with their signatures, as its own API test writes them; "" where it has none."""
    return {
        "header": _header("Ascend/pytorch test/torch_npu_schema.json (torch_npu 2.13)"),
        "names": {name: signature or "" for name, signature in sorted(public.items())},
    }


def pytorch_table(operators: Mapping[str, Any], apis: Mapping[str, Any]) -> dict[str, Any]:
    """Return PyTorch's side: the kind of each operator, what composites call, aliases of public names."""
    own = set(operators["official"]) | set(operators["adapter"])
    kinds = trace_pytorch.operators()
    children = trace_pytorch.generated_children()
    seen, functions = trace_pytorch.watched(lambda name: name in own)
    functions |= trace_pytorch.watched_modules(lambda name: name in own, seen)
    for name, called in seen.items():
        children[name] |= called
    names = trace_pytorch.public_names()
    by_kind: dict[str, list[str]] = defaultdict(list)
    for name, kind in kinds.items():
        by_kind[kind].append(name)
    return {
        "header": _header(f"PyTorch {torch.__version__}: dispatcher, native_functions.yaml, op_db", "BSD-3-Clause"),
        "torch": torch.__version__.partition("+")[0],
        "kinds": {kind: sorted(members) for kind, members in sorted(by_kind.items())},
        "calls": {n: sorted(c - {n}) for n, c in sorted(children.items()) if n in kinds and n not in own and c - {n}},
        "functions": {name: sorted(called) for name, called in sorted(functions.items()) if called},
        "aliases": trace_pytorch.aliases(names, apis["apis"]),
        "packets": trace_pytorch.packets(names, kinds),
        "plain": trace_pytorch.plain_values(names),
        "methods": trace_pytorch.tensor_methods(),
    }


def _header(source: str, licence: str = VENDOR_LICENCE) -> dict[str, str]:
    date = {"date": VENDOR_DATE} if licence == VENDOR_LICENCE else {}
    return {"source": source, "licence": licence, **date, "made_by": "scripts/build_support_tables.py"}


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _write(path: Path, table: Mapping[str, Any]) -> None:
    """Write JSON with one entry of each section on a line, so that a change of one entry is a change of one line."""
    sections = (f"{json.dumps(key)}: {_section(value)}" for key, value in table.items())
    path.write_text("{\n" + ",\n".join(sections) + "\n}\n", encoding="utf-8")
    trace_pytorch.log.info("%s: %d KiB", path, path.stat().st_size // 1024)


def _section(value: Any) -> str:
    if isinstance(value, dict) and value:
        return "{\n" + _lines(f"{json.dumps(k)}: {_compact(v)}" for k, v in value.items()) + "\n}"
    return _compact(value)


def _lines(items: Iterable[str]) -> str:
    return ",\n".join(items)


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


if __name__ == "__main__":
    main()
