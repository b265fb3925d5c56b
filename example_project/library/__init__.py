"""An app with work to do: count what is in the modules of the standard library."""
