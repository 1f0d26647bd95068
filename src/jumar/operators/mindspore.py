"""What MindSpore's operators are called in PyTorch: `torch_name`. Names as of MindSpore 2.10."""

from __future__ import annotations

PREFIX = "ms::"
"""In front of the names of MindSpore's operators in recordings: `ms::MatMul`."""

_NAMES = {
    "add": ("Add", "AddExt", "Adds", "AddScalar", "AssignAdd", "InplaceAddExt"),
    "sub": ("Sub", "SubExt", "Subs", "SubScalar"),
    "mul": ("Mul", "Muls"), "div": ("Div", "Divs", "RealDiv"),
    "reciprocal": ("Reciprocal", "Inv"), "neg": ("Neg",), "abs": ("Abs",), "pow": ("Pow", "PowTensorScalar"),
    "sqrt": ("Sqrt",), "rsqrt": ("Rsqrt",), "square": ("Square",), "exp": ("Exp",), "expm1": ("Expm1",),
    "log": ("Log",), "log2": ("Log2",), "log10": ("Log10",), "log1p": ("Log1p",),
    "clamp": ("ClampTensor", "ClampScalar"),
    "mm": ("MatMul", "MatMulExt", "Mm"), "bmm": ("BatchMatMul", "BatchMatMulExt"), "linear": ("Dense",),
    "convolution": ("Conv2D", "Conv3D", "Conv2DTranspose", "Conv3DTranspose", "ConvolutionStr", "Convolution"),
    "relu": ("ReLU",), "relu6": ("ReLU6",), "leaky_relu": ("LeakyReLU", "LeakyReLUExt"), "elu": ("Elu", "EluExt"),
    "gelu": ("GeLU", "Gelu", "GeluExt"), "silu": ("SiLU",), "tanh": ("Tanh",), "sigmoid": ("Sigmoid",),
    "softplus": ("Softplus", "SoftplusExt"), "hardswish": ("HSwish",), "hardsigmoid": ("HSigmoid",),
    "_softmax": ("Softmax",), "_log_softmax": ("LogSoftmax", "LogSoftmaxExt"),
    "native_layer_norm": ("LayerNorm", "LayerNormExt", "LayerNormV3"),
    "native_batch_norm": ("BatchNorm", "BatchNormExt"), "native_group_norm": ("GroupNorm",),
    "max_pool2d": ("MaxPool", "MaxPoolWithMask"), "avg_pool2d": ("AvgPool", "AvgPool2D"),
    "embedding": ("Embedding",), "index_select": ("Gather", "IndexSelect"), "gather": ("GatherD",),
    "sum": ("ReduceSum", "SumExt"), "mean": ("ReduceMean", "MeanExt"), "amax": ("ReduceMax",), "amin": ("ReduceMin",),
    "prod": ("ReduceProd", "ProdExt"), "max": ("Max", "MaxDim"), "min": ("Min", "MinDim"),
    "cumsum": ("CumSum", "CumsumExt"),
    "maximum": ("Maximum",), "minimum": ("Minimum",), "where": ("Select",), "masked_fill": ("MaskedFill",),
    "cat": ("Concat",), "stack": ("Stack", "StackExt"), "view": ("Reshape", "View"), "permute": ("Transpose",),
    "expand": ("BroadcastTo",), "slice": ("StridedSlice", "SliceExt"), "_to_copy": ("Cast",), "clone": ("Identity",),
    "dropout": ("Dropout", "DropoutExt"), "sort": ("Sort", "SortExt"), "topk": ("TopK", "TopkExt"),
    "isfinite": ("IsFinite",), "all": ("ReduceAll",), "any": ("ReduceAny",), "ones": ("Ones",), "zeros": ("Zeros",),
    "ones_like": ("OnesLike",), "zeros_like": ("ZerosLike",), "full": ("FillScalar", "Fill"),
}  # fmt: skip

_TORCH = {mindspore: torch for torch, names in _NAMES.items() for mindspore in names}


def torch_name(name: str) -> str:
    """Return PyTorch's name (`mm`) of a MindSpore operator as recordings name it (`ms::MatMul`); else the name."""
    return _TORCH.get(name.removeprefix(PREFIX), name) if name.startswith(PREFIX) else name
