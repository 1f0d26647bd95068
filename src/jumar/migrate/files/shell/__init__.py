"""Shell commands with the exact position of every character of every word, and what is converted in them."""
