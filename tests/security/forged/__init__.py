"""Modules that a forged name points to; each leaves a mark when it is run."""
