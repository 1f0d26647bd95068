"""The knowledge bank: what was measured once is not measured again."""
