"""How an operator on npu tensors runs: arguments, kernels by form, registration, the support policy."""
