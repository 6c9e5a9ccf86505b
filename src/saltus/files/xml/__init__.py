"""What MJCF and URDF have in common."""
