"""The worker: a process that forks one child a candidate, so that a crash costs that candidate only.

`client` is the tuner's end, `nursery` the process that forks, `trial` what a child does, `messages` what they say to
each other.
"""
