"""Equations of motion, and the formulations that turn them into an ODE."""
