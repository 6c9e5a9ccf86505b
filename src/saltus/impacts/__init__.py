"""What suddenly appearing contacts do to a machine, at one state and over two parameters."""
