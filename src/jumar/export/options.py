"""`CheckpointOptions`, checked when they are built."""

from __future__ import annotations

from dataclasses import dataclass

from jumar.base.errors import UsageError

DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
"""Name on the command line to PyTorch's."""
PREFIXES = ("module.", "_orig_mod.")
"""What DistributedDataParallel (and DataParallel) and torch.compile put before the keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointOptions:
    """How a checkpoint is exported. Raises UsageError when a field breaks its rule."""

    prefixes: tuple[str, ...] = PREFIXES
    """Taken off the beginning of each key, repeatedly and in any order."""
    dtype: str | None = None
    """One of `DTYPES`: the dtype of all floating tensors; None leaves each as it is."""
    only: str | None = None
    """Dotted path of the state dict in the checkpoint (`model`, `models.generator`); None looks for it."""
    embeddings: tuple[str, ...] = ()
    """Patterns of paths of Embedding modules, whose weight MindSpore names `embedding_table`."""
    with_state: bool = False
    """Keep what is beside the weights, too: optimizer, scheduler, scaler, `amp`, counters."""
    force: bool = False
    """Replace an existing file."""

    def __post_init__(self) -> None:
        if self.dtype is not None and self.dtype not in DTYPES:
            raise UsageError(f"the dtype must be one of {', '.join(DTYPES)}; got {self.dtype!r}.")
        if "" in self.prefixes:
            raise UsageError("a prefix to strip must not be empty; leave it out to strip none.")
