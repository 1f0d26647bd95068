"""Pages as one HTML file that opens offline."""
