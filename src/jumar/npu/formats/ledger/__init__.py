"""The ledger of a run: formats, conversions and compiles of operators."""
