"""What an attack raises that had an effect."""


class Wrong(Exception):
    """Code that ran, a number that changed, a page that was open."""
