"""Make `src/jumar/convert/model/data/torch_names.json` again, when a new PyTorch comes out.

    python scripts/build_agnostic_names.py [--out FILE]

The names that a conversion may write into a source, read from the installed PyTorch: the members of its
public modules, and the signatures of what the rules call with arguments. Run it with the release the
table should name.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import os
import pkgutil
import re
from pathlib import Path
from typing import Any

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # the plain PyTorch, without any device's additions

import torch

MODULES = (
    "torch", "torch.accelerator", "torch.accelerator.graphs", "torch.accelerator.memory", "torch.amp",
    "torch.backends", "torch.distributed", "torch.nn", "torch.nn.functional", "torch.nn.parallel", "torch.nn.utils",
    "torch.optim", "torch.optim.lr_scheduler", "torch.profiler", "torch.utils", "torch.utils.data",
    "torch.utils.data.distributed",
)  # fmt: skip
"""Modules whose members are listed."""

SIGNED = ("torch.accelerator", "torch.amp")
"""Modules of which every function's signature is taken."""

ALSO_SIGNED = (
    "torch.autocast", "torch.get_device_module", "torch.load", "torch.manual_seed", "torch.save",
    "torch.distributed.barrier", "torch.distributed.destroy_process_group", "torch.distributed.get_rank",
    "torch.distributed.get_world_size", "torch.distributed.init_process_group", "torch.distributed.is_available",
    "torch.distributed.is_initialized", "torch.nn.functional.scaled_dot_product_attention", "torch.nn.LayerNorm",
    "torch.nn.parallel.DistributedDataParallel", "torch.utils.data.DataLoader",
    "torch.utils.data.DistributedSampler", "torch.utils.data.distributed.DistributedSampler",
)  # fmt: skip


def main() -> None:
    """Read the installed PyTorch, write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(__file__).parents[1] / "src" / "jumar" / "convert" / "model" / "data" / "torch_names.json"
    parser.add_argument("--out", type=Path, default=default)
    options = parser.parse_args()
    options.out.write_text(json.dumps(table(), indent=1, sort_keys=True) + "\n", encoding="utf-8")


def table() -> dict[str, Any]:
    """Return the names of each module, and the signatures, of the installed PyTorch."""
    signed = [f"{module}.{name}" for module in SIGNED for name in importlib.import_module(module).__all__]
    signatures = {name: signature(name) for name in (*signed, *ALSO_SIGNED)}
    release = re.match(r"\d+\.\d+", torch.__version__)
    return {
        "header": {
            "source": f"PyTorch {torch.__version__.partition('+')[0]}: names and signatures of its public modules",
            "licence": "BSD-3-Clause (facts only; no source text)",
            "made_by": "scripts/build_agnostic_names.py",
        },
        "torch": release[0] if release else torch.__version__,
        "modules": {module: " ".join(members(module)) for module in MODULES},
        "signatures": {name: text for name, text in signatures.items() if text},
    }


def members(module: str) -> list[str]:
    """Return the public names of a module, in order; of one that declares `__all__`, those and its submodules."""
    found = importlib.import_module(module)
    submodules = {info.name for info in pkgutil.iter_modules(getattr(found, "__path__", []))}
    names = found.__all__ if module in SIGNED else dir(found)
    return sorted(name for name in {*names, *submodules} if not name.startswith("_"))


def signature(name: str) -> str:
    """Return the parameters of a function or class as Python writes them, without annotations and defaults' values."""
    module, _, last = name.rpartition(".")
    try:
        found = inspect.signature(getattr(importlib.import_module(module), last))
    except (TypeError, ValueError):
        return ""
    plain = [
        parameter.replace(
            annotation=parameter.empty, default=... if parameter.default is not parameter.empty else parameter.empty
        )
        for parameter in found.parameters.values()
    ]
    return str(inspect.Signature(plain)).replace("Ellipsis", "...")


if __name__ == "__main__":
    main()
