"""Writes a recording of many rows, as `RecordingWriter` writes them: what benchmarks/view.py looks at.

    python benchmarks/view_recording.py FOLDER [STEPS] [ROWS_A_STEP]

The calls are those of a transformer of 48 layers: modules, forward and backward operators with their statistics, losses
and parameters. Names repeat from step to step, times and statistics do not.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

from jumar.recording import CallRow, RecordingWriter, RunEnd, RunInfo, TensorRow
from jumar.recording.rows import rows_to_table

LAYERS = 48
OPERATORS = ("aten::layer_norm", "aten::addmm", "aten::view", "aten::transpose.int", "aten::bmm", "aten::_softmax",
             "aten::gelu", "aten::add.Tensor", "aten::mul.Tensor", "aten::native_dropout")  # fmt: skip
PARTS = ("ln_1", "attn.c_attn", "attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.act", "mlp.c_proj", "")


def tensor(name: str, shape: tuple[int, ...], value: float) -> TensorRow:
    return TensorRow(
        name=name, shape=shape, dtype="float32", device="npu:0", stride=(shape[-1], 1), storage_offset=0,
        contiguous=True, storage=1, minimum=-value, maximum=value, mean=0.01, l2=value * 10, num_nan=0, num_inf=0,
    )  # fmt: skip


def template(num_rows: int) -> list[CallRow]:
    """Return the rows of one step."""
    rows: list[CallRow] = []
    counts: dict[tuple[str, str, str], int] = {}
    shapes = [(512, 768), (512, 2304), (512, 3072)]
    for seq in range(num_rows - 1):
        phase = "forward" if seq < num_rows // 2 else "backward"
        layer, part = seq * 3 % LAYERS, PARTS[seq % len(PARTS)]
        path = f"transformer.h.{layer}.{part}".rstrip(".")
        name = OPERATORS[seq % len(OPERATORS)]
        counts[phase, path, name] = occurrence = counts.get((phase, path, name), -1) + 1
        shape = shapes[seq % 3]
        rows.append(
            CallRow(
                step=0, rank=0, seq=seq, kind="op", phase=phase, module_path=path, module_type="Block", name=name,
                occurrence=occurrence, source=f"model.py:{40 + seq % 160}", start_us=float(seq * 10), duration_us=1.0,
                inputs=(tensor("input.0", shape, 1.5), tensor("input.1", shape, 0.5)),
                outputs=(tensor("output.0", shape, 2.0),),
            )
        )  # fmt: skip
    loss = tensor("output.0", (1, 1), 2.5)
    rows.append(
        CallRow(step=0, rank=0, seq=num_rows - 1, kind="loss", phase="forward", module_path="", module_type="",
                name="loss", occurrence=0, outputs=(loss,))
    )  # fmt: skip
    return rows


def generate(folder: Path, steps: int, num_rows: int) -> None:
    """Write the recording; every step has times and statistics of its own."""
    writer = RecordingWriter(
        folder, RunInfo(command=("train.py",), device="npu (emulated)", values="stats"), force=True
    )
    table = rows_to_table(template(num_rows))
    random = np.random.default_rng(0)
    for step in range(steps):
        times = random.lognormal(2.5, 1.2, num_rows)
        changed = table.set_column(0, "step", pa.array(np.full(num_rows, step, np.int32)))
        changed = changed.set_column(changed.column_names.index("duration_us"), "duration_us", pa.array(times.round(3)))
        writer.write_table(step, _with_statistics(changed, random).cast(table.schema), None, {})
    writer.close(RunEnd(rank=0, status="finished", num_steps=steps, wall_s=1.0))


def _with_statistics(table: pa.Table, random: np.random.Generator) -> pa.Table:
    for side in ("inputs", "outputs"):
        column = table.column(side).combine_chunks()
        structs = column.flatten()
        fields = {field.name: structs.field(field.name) for field in structs.type}
        for name in ("mean", "l2", "maximum"):
            fields[name] = pa.array(random.normal(1.0, 0.3, len(structs)))
        fresh = pa.StructArray.from_arrays(list(fields.values()), fields=list(structs.type))
        table = table.set_column(
            table.column_names.index(side), side, pa.ListArray.from_arrays(column.offsets, fresh, type=column.type)
        )
    return table


if __name__ == "__main__":
    place, *numbers = sys.argv[1:]
    generate(Path(place), *(map(int, numbers) if numbers else (1000, 10_000)))
