"""The rules of `verify` over a `Pair`, one file each."""
