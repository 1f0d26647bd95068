"""Names as profiles of the vendor write them: dtypes, formats, shapes, functions and kernels."""

from __future__ import annotations

from collections.abc import Sequence

from jumar.soc.estimate import TensorShape

DTYPES = {
    "float32": "FLOAT", "float16": "FLOAT16", "bfloat16": "DT_BF16", "float64": "DOUBLE", "bool": "BOOL",
    "int8": "INT8", "uint8": "UINT8", "int16": "INT16", "int32": "INT32", "int64": "INT64", "complex64": "COMPLEX64",
    "complex128": "COMPLEX128",
}  # fmt: skip


def dtype_names(tensors: Sequence[TensorShape]) -> str:
    """Return `FLOAT16;DT_BF16`."""
    return ";".join(DTYPES.get(tensor.dtype, tensor.dtype.upper()) for tensor in tensors)


def format_names(tensors: Sequence[TensorShape]) -> str:
    """Return `ND;FRACTAL_NZ`."""
    return ";".join(tensor.format for tensor in tensors)


def shape_text(tensors: Sequence[TensorShape]) -> str:
    """Return `64,3,224,224;64,3,7,7`."""
    return ";".join(",".join(map(str, tensor.shape)) for tensor in tensors)


def api_name(operator: str, is_aclnn: bool) -> str:
    """Return the function of CANN that the adapter calls: `aclnnInplaceAdd`, or the graph compiler's one entry."""
    namespace, _, rest = operator.rpartition("::")
    if namespace in ("hccl", "c10d"):
        return "Hccl" + rest.partition(".")[0].title().replace("_", "")
    if not is_aclnn:
        return "aclopCompileAndExecuteV2"
    base = rest.partition(".")[0].removeprefix("npu_")
    inplace = "Inplace" if base.endswith("_") and not base.startswith("_") else ""
    return "aclnn" + inplace + "".join(part[:1].upper() + part[1:] for part in base.strip("_").split("_"))


def kernel_name(api: str, kernel_type: str, is_aclnn: bool, task: int) -> str:
    """Return a name for one kernel: `aclnnAdd_Add_Add`, and `Add12` of the graph compiler."""
    if api.startswith("Hccl"):
        return f"{kernel_type}_{task}"
    return f"{api}_{kernel_type}_{kernel_type}" if is_aclnn else f"{kernel_type}{task}"
