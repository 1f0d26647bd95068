"""What users import: `torch.npu`, `torch_npu` and its packages, `apex`; and the start of the device."""
