"""URDF, with an extension for loops."""
