"""operator_details.csv: host and device time of every call on the host, itself and with the calls inside it."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jumar.npu.profiler.collect.collected import HostRow, Profile
from jumar.npu.profiler.files.tables import us, write_csv

HEADERS = (
    "Name", "Input Shapes", "Call Stack", "Host Self Duration(us)", "Host Total Duration(us)",
    "Device Self Duration(us)", "Device Total Duration(us)", "Device Self Duration With AICore(us)",
    "Device Total Duration With AICore(us)",
)  # fmt: skip
_AI_CORE = frozenset({"AI_CORE", "AI_VECTOR_CORE", "MIX_AIC"})


@dataclass(slots=True)
class Node:
    """A call on the host; the device's times in nanoseconds and its memory in bytes: own, and with the children's."""

    row: HostRow
    children: list[Node] = field(default_factory=list)
    device_ns: int = 0
    ai_core_ns: int = 0
    device_total_ns: int = 0
    ai_core_total_ns: int = 0
    device_bytes: int = 0
    device_total_bytes: int = 0

    @property
    def host_total_ns(self) -> int:
        """Length of the call."""
        return self.row.end_ns - self.row.start_ns

    @property
    def host_self_ns(self) -> int:
        """Length of the call without the calls inside it."""
        return self.host_total_ns - sum(child.host_total_ns for child in self.children)


def trees(profile: Profile) -> list[Node]:
    """Return every operator call and range, in order of start, nested by time within its thread."""
    device, ai_core = _by_operator(profile)
    rows = [row for row in profile.host if row.kind in ("cpu_op", "user_annotation")]
    rows.sort(key=lambda row: (row.start_ns, -row.end_ns))
    stacks: dict[int, list[Node]] = defaultdict(list)
    nodes = []
    for row in rows:
        node = Node(row)
        if row.operator >= 0:
            node.device_ns, node.ai_core_ns = device[row.operator], ai_core[row.operator]
        stack = stacks[row.thread]
        while stack and not (stack[-1].row.start_ns <= row.start_ns and row.end_ns <= stack[-1].row.end_ns):
            stack.pop()
        if stack:
            stack[-1].children.append(node)
        stack.append(node)
        nodes.append(node)
    _add_memory(profile, nodes)
    for node in reversed(nodes):  # children come after their parent
        node.device_total_bytes = node.device_bytes + sum(child.device_total_bytes for child in node.children)
        node.device_total_ns = node.device_ns + sum(child.device_total_ns for child in node.children)
        node.ai_core_total_ns = node.ai_core_ns + sum(child.ai_core_total_ns for child in node.children)
    return nodes


def _add_memory(profile: Profile, nodes: Sequence[Node]) -> None:
    """Count what is allocated in a call, and what is freed in it, to the innermost call of that moment."""
    starts = [node.row.start_ns for node in nodes]
    roots = set(map(id, nodes)) - {id(child) for node in nodes for child in node.children}
    for row in profile.memory:
        for time_ns, size in ((row.start_ns, row.size_bytes), (row.end_ns, -row.size_bytes)):
            node = _at(nodes, starts, roots, time_ns) if time_ns >= 0 else None
            if node is not None:
                node.device_bytes += size


def _at(nodes: Sequence[Node], starts: Sequence[int], roots: set[int], time_ns: int) -> Node | None:
    for index in range(bisect_right(starts, time_ns) - 1, -1, -1):
        node = nodes[index]
        if time_ns <= node.row.end_ns:
            return node
        if id(node) in roots:
            break
    return None


def _by_operator(profile: Profile) -> tuple[dict[int, int], dict[int, int]]:
    device: dict[int, int] = defaultdict(int)
    ai_core: dict[int, int] = defaultdict(int)
    for kernel in profile.kernels:
        duration = kernel.end_ns - kernel.start_ns
        device[kernel.operator] += duration
        if kernel.core in _AI_CORE:
            ai_core[kernel.operator] += duration
    return device, ai_core


def write_operator_details(path: Path, profile: Profile) -> None:
    """Write one row a call on the host; the ranges of steps are left out, as the vendor does."""
    rows = [
        [
            node.row.name, node.row.shapes, node.row.stack, us(node.host_self_ns), us(node.host_total_ns),
            us(node.device_ns), us(node.device_total_ns), us(node.ai_core_ns), us(node.ai_core_total_ns),
        ]
        for node in trees(profile)
        if not node.row.name.startswith("ProfilerStep#")
    ]  # fmt: skip
    write_csv(path, HEADERS, rows)
