"""What Ascend's adapter of TensorFlow (TFAdapter) takes: its options, the scripts that set them, and a stand-in.

`options` is the one table of options; `source` reads scripts for what they set, without TensorFlow; `bridge` is
`npu_bridge` and `npu_device` on the CPU.
"""
