"""What a program controls at run time: devices, streams, events, graphs, memory statistics."""
