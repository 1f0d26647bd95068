"""Make the table of the vendor's custom operators again, when a new torch_npu comes out.

    python scripts/build_custom_operators.py RAW [--out src/jumar/soc/data]

RAW is the folder that `build_support_tables.py` reads; of it only `npu_operators.json` is needed, whose
`custom` maps an operator to the overloads with their schemas and versions and whose `native_custom`
lists schemas of the adapter itself.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

HEADER = {
    "source": "Ascend/op-plugin op_plugin/config/op_plugin_functions.yaml; Ascend/pytorch "
    "torch_npu/csrc/aten/npu_native_functions.yaml",
    "licence": "BSD-3-Clause (facts extracted; no source text)",
    "date": "2026-08-21",
    "made_by": "scripts/build_custom_operators.py",
}


def main() -> None:
    """Read the raw table, write the packaged one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("raw", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "src" / "jumar" / "soc" / "data")
    options = parser.parse_args()
    raw = json.loads((options.raw / "npu_operators.json").read_text(encoding="utf-8"))
    lines = ",\n".join(json.dumps(schema) for schema in sorted(set(schemas(raw))))
    header = json.dumps(HEADER, indent=0)
    target = options.out / "npu_custom_operators.json"
    target.write_text(f'{{\n"header": {header},\n"schemas": [\n{lines}\n]\n}}\n', encoding="utf-8")


def schemas(raw: Mapping[str, Any]) -> Iterator[str]:
    """Yield every schema without namespace, as the vendor writes it."""
    for entries in raw["custom"].values():
        for entry in entries:
            yield entry["schema"]
    yield from raw["native_custom"]


if __name__ == "__main__":
    main()
