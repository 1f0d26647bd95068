"""The rules of overflow, one file each."""
