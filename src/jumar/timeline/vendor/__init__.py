"""What the profilers of CANN, torch_npu and MindSpore write: tables, traces, databases, and how their figures agree."""
