"""Rules about CUDA code that stays after conversion, with its counterparts.

One rule a kind of reason. Uses of the same kind that need the same answer are one finding a file; each use
that needs a decision of its own is one finding. Guards that make something optional lower its severity.
"""
