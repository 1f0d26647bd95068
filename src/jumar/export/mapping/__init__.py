"""Maps of parameter names from one program to another: proposed, edited by a person, applied and verified."""
