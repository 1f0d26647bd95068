"""Rules that replace interfaces by similar ones where the user asks for it (`-sim`). Each names the differences.

They run before the rules about torch.cuda, because what they replace no longer needs those. A call whose
arguments have no equal is left and says so; nothing changes a result without a word. Beside them, the device
number from the environment (`-s`).
"""
