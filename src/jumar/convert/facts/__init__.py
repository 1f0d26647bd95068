"""Gathers what the files of a project must know of each other: names passed on, and device words that change
together.
"""
