"""The rules of the diagnosis of a comparison, one file each."""
