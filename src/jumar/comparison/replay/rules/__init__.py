"""The rules of `jumar replay`, one file each."""
