"""Batches: many copies of a machine at a fixed step, with gradients."""
