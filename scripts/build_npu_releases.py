"""Write src/jumar/soc/data/torch_npu_releases.json: which public names each release of torch_npu has.

    python scripts/build_npu_releases.py RAW DATE

RAW holds `2.1.json`, `2.6.json`, …: the file `test/torch_npu_schema.json` of Ascend/pytorch, as it is at the end of the
branch of that release. It may hold `2.14/`, too: a released wheel, unpacked. Such a release has the names of the file
of its number, else of the newest file before it, and the functions beyond them that `__all__` of a public module lists.
Names that all releases have, with one signature, are left out.
So are names of which the vendor's test says something in some releases only: functions of `torch_npu` itself, which are
operators for the most part, torchair, and private names.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

TARGET = Path(__file__).resolve().parents[1] / "src/jumar/soc/data/torch_npu_releases.json"
SOURCE = "Ascend/pytorch test/torch_npu_schema.json at the end of each release's branch; {wheels}: their wheels, too"

_COMPILER = "Use torch.compile with the npugraph_ex or torchair backend of that release, or leave the scope out."
_PATTERN = "Nothing stands for it there: leave the call out; it changes no result."
INSTEAD = {
    "torch_npu.HiFloat8Tensor": "Use bfloat16 tensors there.",
    "torch_npu.contrib.QuantConv2d": "Use torch_npu.contrib.module.QuantConv2d where the release has it, "
    "else torch_npu.npu_quant_conv2d.",
    "torch_npu.contrib.module.QuantConv2d": "Use torch_npu.npu_quant_conv2d.",
    "torch_npu.distributed.all_to_all_vc": "Use torch.distributed.all_to_all_single with split sizes.",
    "torch_npu.distributed.fsdp.fully_shard": "Use torch.distributed.fsdp.FullyShardedDataParallel.",
    "torch_npu.distributed.pipelining.pipeline": "Use torch.distributed.pipelining.pipeline.",
    "torch_npu.distributed.tensor.experimental.context_parallel": "Split the sequence with MindSpeed's context "
    "parallelism, or by hand.",
    "torch_npu.multiprocessing.reductions": "Pass the tensor through shared memory on the CPU.",
    "torch_npu.npu.Event": "Synchronize the event in the process that recorded it.",
    "torch_npu.npu.ExternalStream": "Use a torch.npu.Stream of torch_npu's own.",
    "torch_npu.npu.MemPoolContext": "Use torch.npu.use_mem_pool with a torch.npu.MemPool.",
    "torch_npu.npu.NPUGraph": "Capture the graph again in place of updating it.",
    "torch_npu.npu.NpuGraphOpHandler": "Capture the graph again in place of updating it.",
    "torch_npu.npu.are_compatible_impl_enabled": _PATTERN,
    "torch_npu.npu.empty_virt_addr_cache": "Use torch.npu.empty_cache.",
    "torch_npu.npu.get_device_limit": _PATTERN,
    "torch_npu.npu.get_per_process_memory_fraction": "Keep the fraction that torch.npu.set_per_process_memory_fraction "
    "was given.",
    "torch_npu.npu.get_stream_limit": _PATTERN,
    "torch_npu.npu.get_task_queue_enable": "Read the environment variable TASK_QUEUE_ENABLE.",
    "torch_npu.npu.graphs.NPUGraph": "Capture the graph again in place of updating it.",
    "torch_npu.npu.host_empty_cache": _PATTERN,
    "torch_npu.npu.host_memory_stats": "Ask the operating system for the process's memory; torch.npu.memory_stats is "
    "of the device.",
    "torch_npu.npu.host_memory_stats_as_nested_dict": "Ask the operating system for the process's memory; "
    "torch.npu.memory_stats is of the device.",
    "torch_npu.npu.ipc_collect": _PATTERN,
    "torch_npu.npu.mstx": "Use torch.npu.mstx.range_start and range_end, which every release has.",
    "torch_npu.npu.npugraph_ex": _COMPILER,
    "torch_npu.npu.npurt": "There is no other access to the runtime: leave the call out.",
    "torch_npu.npu.obfuscation_calculate": _PATTERN,
    "torch_npu.npu.obfuscation_finalize": _PATTERN,
    "torch_npu.npu.obfuscation_initialize": _PATTERN,
    "torch_npu.npu.register_npu_graph_handler": "Capture the graph again in place of updating it.",
    "torch_npu.npu.reset_accumulated_host_memory_stats": _PATTERN,
    "torch_npu.npu.reset_peak_host_memory_stats": _PATTERN,
    "torch_npu.npu.reset_stream_limit": _PATTERN,
    "torch_npu.npu.set_deterministic_level": "Use torch.use_deterministic_algorithms(True).",
    "torch_npu.npu.set_device_limit": _PATTERN,
    "torch_npu.npu.set_op_timeout_ms": "Set the environment variable ACL_OP_TIMEOUT, or leave the call out.",
    "torch_npu.npu.set_stream_limit": _PATTERN,
    "torch_npu.npu.set_task_queue_enable": "Set the environment variable TASK_QUEUE_ENABLE before the process starts.",
    "torch_npu.npu.super_kernel_scope_begin": _PATTERN,
    "torch_npu.npu.super_kernel_scope_end": _PATTERN,
    "torch_npu.npu.use_compatible_impl": _PATTERN,
    "torch_npu.npu.utils.can_device_access_peer": "Use torch.npu.can_device_access_peer.",
    "torch_npu.npu.utils.chmod_recursive": "Use os.chmod.",
    "torch_npu.npu.utils.device_count": "Use torch.npu.device_count.",
    "torch_npu.npu.utils.get_device_capability": "Use torch.npu.get_device_capability.",
    "torch_npu.npu.utils.get_device_name": "Use torch.npu.get_device_name.",
    "torch_npu.npu.utils.get_device_properties": "Use torch.npu.get_device_properties.",
    "torch_npu.npu.utils.is_force_overflow_check": "Use torch.npu.utils.is_support_inf_nan.",
    "torch_npu.npu.utils.mem_get_info": "Use torch.npu.mem_get_info.",
    "torch_npu.npu.utils.utilization": "Use torch.npu.utilization.",
    "torch_npu.profiler.experimental_config.HostSystem": "Leave host_sys out of the profiler's configuration.",
    "torch_npu.utils.serialization.save_async": "Use torch.save.",
    "torch_npu.profiler.HostSystem": "Leave host_sys out of the profiler's configuration.",
    "torch_npu.profiler.dynamic_profile.set_state": "Use torch_npu.profiler.dynamic_profile.step.",
    "torch_npu.profiler.profile": "Leave the call out; the profile is the same but for this.",
    "torch_npu.testing.common_utils.SkipIfNotGteCANNVersion": "Use unittest.skipIf.",
    "torch_npu.utils.get_cann_version": "Read the version file of the CANN installation.",
    "torch_npu.utils.reset_thread_affinity": "Call os.sched_setaffinity with the set that os.sched_getaffinity gave.",
    "torch_npu.utils.save_async": "Use torch.save.",
    "torch_npu.utils.serialization.save": "Use torch.save.",
    "torch_npu.utils.tensor_methods": "Use torch_npu.npu_confusion_transpose, and Tensor.to for a dtype.",
}
"""What to use in a release that lacks a name, by the name or the class or module that it is in. Kept by hand."""


def minor(release: str) -> int:
    """Return the second number of a release."""
    return int(release.partition(".")[2])


def spans(having: Iterable[str], releases: list[str]) -> str:
    """Return releases as spans: `2.1-2.5 2.7`."""
    wanted, parts, run = set(having), [], []
    for release in [*releases, ""]:
        if release in wanted:
            run.append(release)
        elif run:
            parts.append(run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}")
            run = []
    return " ".join(parts)


def is_told(name: str) -> bool:
    """Tell whether every release's file would have this name if the release had it."""
    if not name.startswith("torch_npu."):
        return name.startswith("func: ")
    is_of_root = name.count(".") == 1 and not name.rpartition(".")[2][0].isupper()
    is_private = any(part.startswith("_") for part in name.split("."))
    return not (is_of_root or is_private or name.startswith("torch_npu.dynamo.torchair."))


def listed(module: ast.Module) -> set[str]:
    """Return the names that a module's `__all__` lists, where it is written out."""
    found: set[str] = set()
    for node in module.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            value = getattr(node, "value", None)
            parts = value.elts if isinstance(value, ast.List | ast.Tuple) else []
            found |= {part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)}
    return found


def functions(wheel: Path) -> Iterator[tuple[str, str]]:
    """Yield the functions that `__all__` of a public module lists, with signatures.

    Left out is the compiler, which has packages of its own.
    """
    trees = {
        module_of(file.relative_to(wheel)): ast.parse(file.read_bytes()) for file in wheel.rglob("torch_npu/**/*.py")
    }
    made = {
        f"{module}.{node.name}": f"({ast.unparse(node.args)})"
        for module, tree in trees.items()
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }
    for module, tree in trees.items():
        if any(part.startswith("_") for part in module.split(".")) or module.startswith("torch_npu.dynamo"):
            continue
        homes = {
            alias.asname or alias.name: f"{module}.{node.module}.{alias.name}"
            if node.level
            else f"{node.module}.{alias.name}"
            for node in tree.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for name in listed(tree):
            home = homes.get(name, f"{module}.{name}")
            if home in made:
                yield f"{module}.{name}", made[home]


def module_of(file: Path) -> str:
    """Return the dotted name of a file's module."""
    return ".".join(file.with_suffix("").parts).removesuffix(".__init__")


def counterpart(name: str) -> str:
    """Return what stands for a name where it is missing: that of the longest part of it in `INSTEAD`, "" without one.

    A name below the module that defines it (`torch_npu.npu.memory.x`) is the same object as the public one.
    """
    short = re.sub(
        r"\.(memory|graphs|streams|utils|npu_config|profiler|experimental_config|serialization)\.(?=\w+)", ".", name
    )
    for whole in (name, short, re.sub(r"^torch_npu\.(?=HostSystem|profile\b)", "torch_npu.profiler.", short)):
        parts = whole.split(".")
        prefixes = (".".join(parts[:length]) for length in range(len(parts), 1, -1))
        found = next((INSTEAD[prefix] for prefix in prefixes if prefix in INSTEAD), "")
        if found:
            return found
    return ""


def last_names(table: Mapping[str, str]) -> set[str]:
    """Return the last parts of the names of a file, which does not list a function under all its paths."""
    return {name.rpartition(".")[2] for name in table}


def with_wheels(tables: dict[str, dict[str, str]], folder: Path) -> list[str]:
    """Add the names of the wheels in a folder to the tables of their releases. Returns these releases."""
    wheels = sorted((path.name for path in folder.glob("2.*") if path.is_dir()), key=minor)
    for release in wheels:
        before = max((known for known in tables if minor(known) <= minor(release)), key=minor)
        known = last_names(tables[before])
        further = {name: text for name, text in functions(folder / release) if name.rpartition(".")[2] not in known}
        tables[release] = {**further, **tables[before]}
    return wheels


def build(tables: Mapping[str, Mapping[str, str]]) -> dict[str, object]:
    """Return the table for release → name → signature, without its header."""
    releases = sorted(tables, key=minor)
    names: dict[str, str] = {}
    signatures: dict[str, dict[str, str]] = {}
    for name in sorted({name for table in tables.values() for name in table if is_told(name)}):
        having = [release for release in releases if name in tables[release]]
        if having != releases:
            names[name] = spans(having, releases)
        changes: dict[str, str] = {}
        for release in having:
            signature = tables[release][name]
            if not changes or signature != list(changes.values())[-1]:
                changes[release] = signature
        if len(changes) > 1:
            signatures[name] = changes
    instead = {name: text for name in names if (text := counterpart(name))}
    return {"releases": releases, "names": names, "signatures": signatures, "instead": instead}


def main() -> None:
    """Read the folder that is named and write the table."""
    tables: dict[str, dict[str, str]] = {}
    for file in Path(sys.argv[1]).glob("2.*.json"):
        entries = json.loads(file.read_text("utf-8"))
        tables[file.stem] = {name: str(entry.get("signature", "")) for name, entry in entries.items()}
    wheels = ", ".join(with_wheels(tables, Path(sys.argv[1])))
    header = {"source": SOURCE.format(wheels=wheels), "licence": "BSD-3-Clause", "date": sys.argv[2]}
    table = {"header": header, **build(tables)}
    TARGET.write_text(json.dumps(table, ensure_ascii=False, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
