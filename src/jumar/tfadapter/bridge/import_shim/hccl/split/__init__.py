"""Stands for the collectives' package."""
