"""Model files: plain data with expressions, read and written."""
