"""How the rules of this group replace an interface by a similar one."""
