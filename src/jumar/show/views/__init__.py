"""What each block shows, computed apart from its HTML: the templates only lay these values out."""
