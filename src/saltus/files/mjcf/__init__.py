"""MuJoCo's XML."""
