"""`python -m saltus` is `saltus`."""

from saltus.cli.app import app

app()
