"""The command line: `jumar`."""
