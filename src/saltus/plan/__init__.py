"""Motions planned by direct collocation, and the feedback that flies them."""
