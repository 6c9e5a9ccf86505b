"""Machines that change what holds them: contacts, guards, resets, modes and the passage between them."""
