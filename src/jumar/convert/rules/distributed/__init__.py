"""Rules that turn training on one device into training on several (`distributed -m MAIN -t MODEL`).

`plan` makes the whole conversion of the entry script, or says why it cannot; each rule yields its part.
"""
