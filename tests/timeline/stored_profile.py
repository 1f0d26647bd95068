"""A database in the layout of msprof's reference: one operator, its launch, two kernels, one collective."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

STRINGS = [
    "aten::mm", "MatMulV3", "AI_CORE", "8,4;4,2", "ND;FRACTAL_NZ", "hcom_allReduce__1", "group", "AI_CPU", "Index",
    "FLOAT;FLOAT", "aclnnMm", "train.py(41): step",
]  # fmt: skip
NUMBER = {text: index for index, text in enumerate(STRINGS)}
THREAD = (7 << 32) + 9
"""Process 7, thread 9."""


def tables() -> dict[str, tuple[str, list[tuple[Any, ...]]]]:
    """Return the columns and rows of each table."""
    n = NUMBER
    return {
        "STRING_IDS": ("id, value", list(enumerate(STRINGS))),
        "PYTORCH_API": (
            "startNs, endNs, globalTid, connectionId, name, sequenceNumber, inputDtypes, inputShapes, callchainId, "
            "type",
            [("1000", "2000", THREAD, 1, n["aten::mm"], 5, n["FLOAT;FLOAT"], n["8,4;4,2"], 0, 50001)],
        ),
        "CONNECTION_IDS": ("id, connectionId", [(1, 11), (1, 12)]),
        "PYTORCH_CALLCHAINS": ("id, stack, stackDepth", [(0, n["train.py(41): step"], 0)]),
        "CANN_API": (
            "startNs, endNs, type, globalTid, connectionId, name", [(1100, 1200, 10000, THREAD, 11, n["aclnnMm"])],
        ),
        "TASK": (
            "startNs, endNs, deviceId, connectionId, globalTaskId, taskType, streamId",
            [
                (3000, 4000, 2, 11, 1, n["AI_CORE"], 6),
                (5000, 5500, 2, 12, 2, n["AI_CPU"], 6),
                (6000, None, 2, 13, 3, n["AI_CPU"], 6),
            ],
        ),
        "COMPUTE_TASK_INFO": (
            "name, globalTaskId, blockDim, taskType, opType, inputFormats, inputShapes",
            [
                (n["MatMulV3"], 1, 24, n["AI_CORE"], n["MatMulV3"], n["ND;FRACTAL_NZ"], n["8,4;4,2"]),
                (n["Index"], 2, 1, n["AI_CPU"], n["Index"], None, None),
            ],
        ),
        "COMMUNICATION_OP": (
            "opName, startNs, endNs, connectionId, groupName, opId, opType, deviceId",
            [(n["hcom_allReduce__1"], 7000, 9000, 14, n["group"], 1, 5, 2)],
        ),
        "STEP_TIME": ("id, startNs, endNs", [(4, 900, 9100)]),
        "MSTX_EVENTS": ("startNs, endNs, message, globalTid", [(9200, 9300, n["group"], THREAD)]),
        "NPU_INFO": ("id, name", [(2, "Ascend910B2")]),
        "MEMORY_RECORD": ("component, timestamp, totalAllocated, totalReserved, deviceId",
                          [(None, 3000, 512, 1024, 2)]),
    }  # fmt: skip


def write_database(path: Path) -> None:
    """Write the file."""
    connection = sqlite3.connect(path)
    for table, (columns, rows) in tables().items():
        connection.execute(f"CREATE TABLE {table} ({columns})")
        connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
    connection.commit()
    connection.close()
