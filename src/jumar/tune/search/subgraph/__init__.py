"""Subgraph tuning: a whole graph given to the engine, or the engines, that compute it fastest.

baseline → engines → variants → duels → regions → measured gate → knowledge bank
"""
