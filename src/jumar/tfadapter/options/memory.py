"""`memory_options`: the memory options that an out-of-memory line of GE asks for, as the document computes them.

Source: the document on AOE's typical cases, case 03. The memory that the line names, and 1 GB more, goes to the option
that was too small; the other one gets what is left of 31 GB. A GB is 1024 * 1024 * 1024 bytes, as in the document's
code.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

GB = 1024**3
TOTAL = 31 * GB
VARIABLE, GRAPH = "variable_memory_max_size", "graph_memory_max_size"
_LINE = re.compile(
    r"current (?P<what>var|graph) size\[(?P<size>\d+)\](?: exceeds total (?P=what) size\b|\s*$)"
    r"|^\W*size\[(?P<rest>\d+)\] exceeds total (?P<of>var|graph) size\b"
)
"""The line, or one of the parts that a launcher or terminal made of it."""


@dataclass(frozen=True)
class MemoryOptions:
    """Bytes of both options."""

    graph: int
    variable: int

    @property
    def session_code(self) -> str:
        """Both options for sess.run, two lines."""
        line = 'custom_op.parameter_map["{name}"].s = tf.compat.as_bytes(str({size}))'
        return "\n".join(line.format(name=name, size=size) for name, size in self._pairs())

    @property
    def estimator_code(self) -> str:
        """Both options for an Estimator."""
        return f"config = NPURunConfig({', '.join(f'{name}=str({size})' for name, size in self._pairs())})"

    def _pairs(self) -> list[tuple[str, int]]:
        return [(GRAPH, self.graph), (VARIABLE, self.variable)]


def memory_options(text: str) -> MemoryOptions | str | None:
    """Return the options that a line asks for; a sentence where there are none; None for another line."""
    match = _LINE.search(text)
    if match is None:
        return None
    size = int(match["size"] or match["rest"])
    needed = size + GB
    name = VARIABLE if (match["what"] or match["of"]) == "var" else GRAPH
    if needed >= TOTAL:
        return (
            f"{name} would have to be {needed:,} bytes (the {size:,} of the line and 1 GB), and both "
            f"options together have {TOTAL:,} (31 GB of a chip with 32 GB): the model does not fit there. Lower the "
            "batch size, share the model between devices, or take a chip with more memory."
        )
    left = TOTAL - needed
    return (
        MemoryOptions(graph=left, variable=needed) if name == VARIABLE else MemoryOptions(graph=needed, variable=left)
    )
