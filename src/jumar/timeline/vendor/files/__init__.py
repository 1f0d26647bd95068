"""One kind of file a module: the folder of a rank holds some of them."""
