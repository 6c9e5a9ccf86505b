"""From equations to trajectories: engines, events, results."""
