"""The options that a session was given, and the dumper that they ask for."""

from __future__ import annotations

import sys
from typing import Any

from jumar.tfadapter.bridge.dump import Dumper
from jumar.tfadapter.bridge.state import STATE
from jumar.tfadapter.options import Setting

NAME = "NpuOptimizer"
_DUMPS = ("enable_dump", "enable_dump_debug", "dump_path", "dump_step", "dump_mode", "dump_debug_mode", "dump_layer")


def settings_of(config: Any) -> list[Setting]:
    """Return the options of the NpuOptimizer in a ConfigProto; none where it has no such optimizer."""
    found = []
    for optimizer in config.graph_options.rewrite_options.custom_optimizers:
        if optimizer.name != NAME:
            STATE.tell(
                f"the custom optimizer {optimizer.name!r} is not {NAME!r}: TensorFlow leaves all its options out"
            )
            continue
        for name, value in optimizer.parameter_map.items():
            kind = value.WhichOneof("value")
            found.append(
                Setting("session", name, getattr(value, kind) if kind else None, kind, group=f"session {id(config)}")
            )
    return found


def dumper_of(options: dict[str, Any]) -> Dumper | None:
    """Return the dumper that options ask for."""
    last = {name.rpartition(".")[2]: _text(value) for name, value in options.items()}
    if not (last.get("enable_dump") or last.get("enable_dump_debug")):
        return None
    return Dumper({name: last[name] for name in _DUMPS if last.get(name) is not None})


def _text(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def say_overflow(dumpers: list[Dumper]) -> None:
    """Print what overflowed first, or over how many steps nothing did."""
    for dumper in dumpers:
        if not dumper.is_overflow:
            continue
        where = dumper.options["dump_path"]
        if dumper.found:
            more = f", and {len(dumper.found) - 1} more" if len(dumper.found) > 1 else ""
            sys.stderr.write(f"jumar: overflow in {dumper.found[0]}{more}: {where}\n")
        else:
            mode = dumper.options.get("dump_debug_mode", "all")
            sys.stderr.write(
                f"jumar: no overflow ({mode}) in {dumper.num_runs} runs, {dumper.num_seen:,} outputs, in the dtypes "
                "that TensorFlow computes on the CPU\n"
            )
