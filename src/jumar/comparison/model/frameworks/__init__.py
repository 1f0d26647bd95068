"""What differs between frameworks and is one thing all the same: names of settings, layers, backward operators."""
