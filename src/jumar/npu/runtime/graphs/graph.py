"""`torch.npu.NPUGraph` and the context manager that captures one."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NoReturn

from jumar.npu.core.refusals import refuse
from jumar.npu.memory import memory
from jumar.npu.runtime.control import synchronize
from jumar.npu.runtime.current_stream import StreamContext, current_stream, default_stream
from jumar.npu.runtime.graphs.capture import Recorder, Recording
from jumar.npu.runtime.streams import ExternalStream, Stream

__all__ = ["NPUGraph", "graph", "graph_pool_handle", "is_current_stream_capturing"]

Pool = tuple[int, int]

_pools = itertools.count(1)
_capturing: dict[Any, NPUGraph] = {}
"""Stream -> the graph that captures it."""

_MODES = ("global", "thread_local", "relaxed")


def graph_pool_handle() -> Pool:
    """Return a token that stands for a memory pool of graphs. Every graph of the emulator keeps its own memory."""
    return (0, next(_pools))


def is_current_stream_capturing() -> bool:
    """Return whether a graph is being captured on the current stream."""
    return bool(_capturing) and current_stream() in _capturing


class NPUGraph:
    """Operators of a block, recorded to be run again; see `capture` for what a capture leaves in memory.

    Arguments of the operators are what they were at the capture: numbers stay, tensors are read from the same
    memory again. Operators on CPU tensors in the block are run again too, which on an NPU they are not.
    """

    def __init__(self) -> None:
        self.auto_dispatch_capture = False
        self._pool: Pool | None = None
        self._recording: Recording | None = None
        self._recorder: Recorder | None = None
        self._stream: Any = None
        self._is_captured = False

    def capture_begin(self, pool: Pool | None = None, capture_error_mode: str = "global") -> None:
        """Begin to record. Raises RuntimeError on the default stream, an external one, or within another capture."""
        if capture_error_mode not in _MODES:
            raise RuntimeError(f"capture_error_mode must be one of {', '.join(_MODES)}; got {capture_error_mode!r}.")
        if self._is_captured:
            raise RuntimeError(
                "This NPUGraph instance already owns a captured graph. To capture a new graph, create a new instance."
            )
        stream = current_stream()
        if isinstance(stream, ExternalStream):
            raise RuntimeError("NPUGraph::capture_begin is not supported on an ExternalStream.")
        if stream == default_stream():
            raise RuntimeError(
                "NPU graphs must be captured on a non-default stream. (However, after capture, it's ok to replay "
                "them on the default stream.)"
            )
        if memory.settled(stream.device_index).config.pin_memory_expandable_segments:
            raise RuntimeError(
                "ACLGraph capture is not supported when pin_memory_expandable_segments=True. Unset it in "
                "PYTORCH_NPU_ALLOC_CONF to capture graphs."
            )
        if _capturing:
            raise RuntimeError("another graph is being captured in this process; end that capture first.")
        self._pool, self._stream = pool or graph_pool_handle(), stream
        self._recording = Recording()
        self._recorder = Recorder(self._recording, self.auto_dispatch_capture)
        _capturing[stream] = self
        self._recorder.__enter__()

    def capture_end(self) -> None:
        """End the record and put memory back as it was. Raises RuntimeError without `capture_begin`."""
        if self._recorder is None or self._recording is None:
            raise RuntimeError("capture_end() called before capture_begin().")
        recorder, self._recorder = self._recorder, None
        recorder.__exit__(None, None, None)
        del _capturing[self._stream]
        self._recording.put_back()
        if current_stream() != self._stream:
            raise RuntimeError("Capture must end on the same stream it began on.")
        self._is_captured = True

    def replay(self) -> None:
        """Run the recorded operators again. Raises RuntimeError without a capture."""
        if not self._is_captured or self._recording is None:
            raise RuntimeError("Called NPUGraph::replay without a preceding successful capture.")
        self._recording.replay()

    def reset(self) -> None:
        """Forget the recorded operators and give their memory back."""
        self._recording, self._is_captured = None, False

    def pool(self) -> Pool:
        """Return the token of the graph's memory pool. Raises RuntimeError without a capture."""
        if self._pool is None:
            raise RuntimeError("Called NPUGraph::pool() without a preceding successful capture.")
        return self._pool

    def update(self, cpu_update_input: Sequence[Mapping[str, Any]]) -> None:
        """Exchange arguments of the operators that have a handler (`register_npu_graph_handler`), for later replays.

        One dictionary for each such operator in order, or one for all. Raises RuntimeError for another number,
        and where the capture was not made with `auto_dispatch_capture=True`.
        """
        if not self.auto_dispatch_capture or self._recording is None:
            raise RuntimeError(
                "The current graph configuration does not support update. Try to capture by setting "
                "auto_dispatch_capture=True during capture."
            )
        updatable = self._recording.updatable
        given = list(cpu_update_input) * (len(updatable) if len(cpu_update_input) == 1 else 1)
        if len(given) != len(updatable):
            raise RuntimeError(
                f"{len(updatable)} operators of the graph can be updated, and there are {len(given)} elements in the "
                "incoming cpu_update_input list."
            )
        for (handler, call), values in zip(updatable, given, strict=True):
            call.kwargs.update({key: value for key, value in values.items() if key in call.kwargs})
            handler.update_args(call, values)

    def debug_dump(self, debug_path: str) -> NoReturn:
        """Refuse: there is no graph of the runtime to write."""
        refuse("torch_npu.npu.NPUGraph.debug_dump")

    def super_kernel_optimize(self, optimize_options: Any = None, debug_options: Any = None) -> None:
        """Accept hints for fusing the kernels of the graph, which change no result and nothing here.

        Raises RuntimeError for options that are no dict, and without a capture.
        """
        for name, options in (("optimize_options", optimize_options), ("debug_options", debug_options)):
            if options is not None and not isinstance(options, dict):
                raise RuntimeError(f"{name} param must be dict or None.")
        if not self._is_captured:
            raise RuntimeError("Called NPUGraph::super_kernel_optimize without a preceding successful capture.")


def capturing_recording(stream: Any) -> Recording:
    """Return the record of the graph that captures this stream. Raises RuntimeError where none does."""
    graph = _capturing.get(stream)
    if graph is None or graph._recording is None:
        raise RuntimeError("no graph is being captured on this stream.")
    return graph._recording


class graph:
    """Context manager that captures the operators of its block into a graph, on a stream of its own."""

    default_capture_stream: ClassVar[Any] = None

    def __init__(
        self,
        npu_graph: NPUGraph,
        pool: Pool | None = None,
        stream: Any = None,
        auto_dispatch_capture: bool = False,
        capture_error_mode: str = "global",
    ) -> None:
        if stream is None:
            if graph.default_capture_stream is None:
                graph.default_capture_stream = Stream()
            stream = graph.default_capture_stream
        self.npu_graph, self.pool, self.capture_stream = npu_graph, pool, stream
        self.capture_error_mode = capture_error_mode
        self.stream_ctx = StreamContext(stream)
        npu_graph.auto_dispatch_capture = auto_dispatch_capture

    def __enter__(self) -> None:
        synchronize()
        self.stream_ctx.__enter__()
        try:
            self.npu_graph.capture_begin(self.pool, self.capture_error_mode)
        except RuntimeError:
            self.stream_ctx.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        try:
            self.npu_graph.capture_end()
        finally:
            self.stream_ctx.__exit__()
