"""The rules that turn the evidence of a comparison into findings, one file each."""
