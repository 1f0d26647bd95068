"""Whether a public API of PyTorch works on a SoC: the vendor's list first, then what its operators do.

The order of the evidence, first hit wins:

1. `torch.cuda.X`: the vendor's list, then the map of torch.cuda names to torch_npu's.
2. `torch.npu.X`, `torch_npu.X`: whether torch_npu has the name. Functions of sparse tensors (`torch.spmm`): whether
   torch_npu has a sparse kernel.
3. The vendor's list of PyTorch APIs, under the name itself or another spelling of the same object. A
   tick is lowered to `fallback` when the operator behind the API has no NPU kernel: the vendor ticks
   what runs, on the host too.
4. Dtypes, constants, modules and host-only code: `host`.
5. The operators that PyTorch calls for the API (seen by running its own samples).
6. For a chip without a column in the vendor's list (910A, 310P, 310B): the A2 column, as likely.
7. Nothing known: `unverified`. That is no statement that it fails.

A longer chain (`torch.optim.Adam.step`) counts as the longest prefix that is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from jumar.soc.profiles import SocProfile
from jumar.soc.support.data import host_names, host_prefixes, plain_names, table
from jumar.soc.support.knowledge import METHOD_OPERATORS, ON_DEVICE_NAMES, SAME_AS, SPARSE_OPERATORS
from jumar.soc.support.operators import RANK, OperatorSupport, OperatorTables
from jumar.soc.support.releases import covered, lacks, spans_of

ApiStatus = Literal["native", "decomposed", "fallback", "unsupported", "unverified", "host"]

COLUMNS: Mapping[str, str] = {"A2": "A2", "A3": "A3", "950": "950"}
"""SoC family → column of the vendor's list; the other families have none there."""

NEAREST_COLUMN = "A2"
"""Column that is read, as likely and not certain, for a family without one, where no operator decides: the
Python side of torch_npu is the same wheel on every chip."""

TORCH_DTYPES: Mapping[str, str] = {
    "fp64": "float64",
    "fp32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
}
"""The vendor's dtype names → PyTorch's; the others are spelled alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSupport:
    """What is known about one public API on one SoC."""

    name: str
    status: ApiStatus
    source: str
    """The table that says so."""
    note: str = ""
    npu_name: str = ""
    """The name on the NPU side, when it is another one."""
    has_limits: bool = False
    """The vendor's list has a "limits and notes" paragraph."""
    dtypes: tuple[str, ...] = ()
    """Dtypes that paragraph names, in PyTorch's spelling: a heuristic reading."""
    limit_kind: str = ""
    """`supported-named`, `unsupported-named` or `mixed`: how that paragraph seems to mean them."""
    certain: bool = True

    @property
    def supported(self) -> bool | None:
        """True where it works in some way, False where it does not, None where it was not verified."""
        return None if self.status == "unverified" else self.status != "unsupported"

    def excludes(self, dtype: str) -> bool | None:
        """True when the limits seem to exclude `dtype`; None when they say nothing about dtypes clearly."""
        if self.limit_kind == "supported-named" and self.dtypes:
            return dtype not in self.dtypes
        if self.limit_kind == "unsupported-named" and self.dtypes:
            return dtype in self.dtypes
        return None


class ApiTables:
    """API support on one SoC and one torch version."""

    def __init__(self, soc: SocProfile, version: str, operators: OperatorTables) -> None:
        self._soc = soc
        self._version = version
        self._operators = operators
        self._listed: Mapping[str, list[dict[str, Any]]] = table("npu_apis")["apis"]
        names = table("npu_names")
        self._cuda: Mapping[str, dict[str, Any]] = names["cuda"]
        self._torch_npu = frozenset(names["torch_npu"])
        self._npu = frozenset(names["torch_npu_npu"])
        pytorch = table("pytorch_operators")
        self._aliases: Mapping[str, str] = pytorch["aliases"]
        self._functions: Mapping[str, list[str]] = pytorch["functions"]
        self._packets: Mapping[str, str] = pytorch["packets"]

    def support(self, name: str) -> ApiSupport:
        """Return the support of `name`, e.g. `torch.nn.Linear`, `torch.Tensor.masked_fill_`, `torch.cuda.Stream`."""
        known = self._known(name)
        if known is not None:
            return known
        parent = name.rpartition(".")[0]
        while parent.count(".") > 0:
            known = None if parent in plain_names() else self._known(parent)
            if known is not None:
                return replace(known, name=name)
            parent = parent.rpartition(".")[0]
        return ApiSupport(
            name=name, status="unverified", source="no table", note="not in the vendor's list of verified APIs"
        )

    def _known(self, name: str) -> ApiSupport | None:
        rules: tuple[Callable[[str], ApiSupport | None], ...] = (
            self._other_name, self._of_sparse, self._of_torch_npu, self._in_own_column, self._of_cuda, self._on_host,
            self._by_operators, self._in_nearest_column,
        )  # fmt: skip
        return next((found for rule in rules if (found := rule(name)) is not None), None)

    def _other_name(self, name: str) -> ApiSupport | None:
        if name not in ON_DEVICE_NAMES:
            return None
        npu_name, note = ON_DEVICE_NAMES[name]
        return ApiSupport(name=name, status="native", source="torch_npu", npu_name=npu_name, note=note)

    def _of_sparse(self, name: str) -> ApiSupport | None:
        operator = SPARSE_OPERATORS.get(name)
        if operator is None:
            return None
        source = "torch_npu's kernels for sparse tensors"
        if operator in table("vendor_kernels")["sparse"].split():
            return ApiSupport(name=name, status="native", source=source)
        note = f"calls aten::{operator} with a sparse tensor, for which torch_npu has no kernel; use to_dense() first"
        return ApiSupport(name=name, status="unsupported", source=source, note=note)

    def _of_torch_npu(self, name: str) -> ApiSupport | None:
        module, _, rest = name.partition(".")
        if name.startswith("torch.npu."):
            module, rest = "torch_npu", name.removeprefix("torch.")
        if module != "torch_npu" or not rest:
            return None
        changing = self._of_release(name, f"torch_npu.{rest}")
        if changing is not None:
            return changing
        first = rest.removeprefix("npu.").partition(".")[0]
        if f"torch_npu.{rest}" in self._torch_npu or (rest.startswith("npu.") and first in self._npu):
            return ApiSupport(name=name, status="native", source="names of torch_npu 2.13")
        if rest == "npu" or any(known.startswith(f"torch_npu.{rest}.") for known in self._torch_npu):
            return ApiSupport(name=name, status="host", source="names of torch_npu 2.13", note="a module of torch_npu")
        operator = self._operators.support(f"npu::{rest}")
        if operator.status != "unsupported":
            return ApiSupport(name=name, status=operator.status, source=operator.source, note=operator.note)
        return ApiSupport(
            name=name, status="unsupported", source="names of torch_npu 2.13", note="is no name of torch_npu 2.13"
        )

    def _of_release(self, name: str, full: str) -> ApiSupport | None:
        """Return the support of a name that not every release of torch_npu has."""
        spans, source = spans_of(full), f"names of torch_npu {self._version}"
        if not spans:
            return None
        if not lacks(full, self._version):
            return ApiSupport(name=name, status="native", source=source)
        note = f"torch_npu {self._version} has no such name; it is in {spans}"
        return ApiSupport(name=name, status="unsupported", source=source, note=note)

    def _in_own_column(self, name: str) -> ApiSupport | None:
        column = COLUMNS.get(self._soc.family)
        return None if column is None else self._in_column(name, column)

    def _in_nearest_column(self, name: str) -> ApiSupport | None:
        found = None if self._soc.family in COLUMNS else self._in_column(name, NEAREST_COLUMN)
        if found is None:
            return None
        note = found.note or f"the list has no column for {self._soc.name}"
        return replace(found, certain=False, note=note)

    def _in_column(self, name: str, column: str) -> ApiSupport | None:
        listed_as = next((n for n in (name, self._aliases.get(name), SAME_AS.get(name)) if n in self._listed), None)
        if listed_as is None:
            return None
        entry = next((e for e in self._listed[listed_as] if covered(self._version) in e["versions"]), None)
        if entry is None:
            return None
        found = ApiSupport(
            name=name,
            status="native" if column in entry.get("on", ()) else "unsupported",
            source=f"vendor's list for PyTorch {covered(self._version)}, column {column}",
            npu_name=self._npu_name(name),
            has_limits=entry.get("limits", False),
            dtypes=tuple(TORCH_DTYPES.get(dtype, dtype) for dtype in entry.get("dtypes", ())),
            limit_kind=entry.get("kind", ""),
        )
        return self._weigh(found, listed_as)

    def _weigh(self, found: ApiSupport, listed_as: str) -> ApiSupport:
        """Set a tick or a cross of the vendor's list against what the operators behind the API do."""
        behind = self._operators_behind(listed_as)
        if behind is None:
            return found
        if found.status == "native" and behind.status == "fallback":
            # The samples cover several forms of a call, and not every form needs the operator that is missing.
            return replace(
                found,
                status="fallback",
                note=f"calls, in some of its forms, {behind.name}, which {behind.note}",
                certain=False,
            )
        if found.status == "native" and behind.status == "decomposed":
            return replace(found, status="decomposed", note=behind.note)
        if found.status == "unsupported" and RANK[behind.status] <= RANK["decomposed"]:
            note = "the operators behind it have NPU kernels, so it may run all the same"
            return replace(found, note=note, certain=False)
        return found

    def _operators_behind(self, name: str) -> OperatorSupport | None:
        """Return the operator that decides an API: the one it is bound to if that runs, else the worst it calls."""
        bound = METHOD_OPERATORS.get(name.removeprefix("torch.Tensor.")) or self._packets.get(name)
        if bound is not None:
            support = self._operators.support(bound)
            is_on_device = support.certain and RANK[support.status] <= RANK["decomposed"]
            if is_on_device or name not in self._functions:
                return support
        return self._operators.worst(self._functions.get(name, ()))

    def _by_operators(self, name: str) -> ApiSupport | None:
        behind = self._operators_behind(self._aliases.get(name, name))
        if behind is None:
            return None
        note = ""
        if RANK[behind.status] > RANK["decomposed"]:
            note = f"calls {behind.name}, which {behind.note}"
        elif behind.status == "decomposed":
            note = behind.note
        return ApiSupport(
            name=name, status=behind.status, source=f"{behind.source}: {behind.name}", note=note, certain=behind.certain
        )

    def _npu_name(self, name: str) -> str:
        """Return torch_npu's name for a torch.cuda name, empty where it has none or the name is not CUDA's."""
        rest = name.removeprefix("torch.cuda.")
        if rest == name:
            return ""
        head, _, tail = rest.partition(".")
        mapped = self._cuda.get(head, {}).get("npu")
        if mapped is None:
            return ""
        return f"torch.npu.{mapped}" + (f".{tail}" if tail else "")

    def _of_cuda(self, name: str) -> ApiSupport | None:
        """Return what the map of torch.cuda says; a name of an unmapped submodule is CUDA's alone."""
        if not name.startswith("torch.cuda."):
            return self._cudnn(name)
        head, _, tail = name.removeprefix("torch.cuda.").partition(".")
        source = "map of torch.cuda to torch_npu 2.13"
        npu_name = self._npu_name(name)
        if not npu_name:
            if head not in self._cuda:
                return None
            note = f"torch_npu has nothing for torch.cuda.{head}"
            return ApiSupport(name=name, status="unsupported", source=source, note=note)
        if tail and not self._has_submodule_name(npu_name):
            note = f"torch.npu.{self._cuda[head]['npu']} has no {tail}"
            return ApiSupport(name=name, status="unsupported", source=source, note=note)
        changed = self._cuda[head].get("other_parameters") and not tail
        note = "its parameters have other names there" if changed else ""
        return ApiSupport(name=name, status="native", source=source, npu_name=npu_name, note=note)

    def _has_submodule_name(self, npu_name: str) -> bool:
        rest = npu_name.removeprefix("torch.npu.")
        first, _, last = rest.rpartition(".")
        return f"torch_npu.npu.{rest}" in self._torch_npu or (
            first in ("memory", "random", "streams", "utils") and last in self._npu
        )

    def _cudnn(self, name: str) -> ApiSupport | None:
        if not name.startswith(("torch.backends.cudnn.", "torch.backends.cuda.")):
            return None
        note = "a setting of a CUDA library: it can be set, and nothing on an NPU reads it"
        return ApiSupport(name=name, status="host", source="PyTorch", note=note)

    def _on_host(self, name: str) -> ApiSupport | None:
        if name in plain_names() or name in host_names() or name.startswith(host_prefixes()):
            return ApiSupport(name=name, status="host", source="PyTorch", note="no device kernel is involved")
        return None
