"""Feedback along a reference: partial feedback linearisation, joint PD, time-varying LQR."""
