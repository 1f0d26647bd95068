"""Calls that have no partner of the same form in the other framework: activations built in, padding outside, parts."""
