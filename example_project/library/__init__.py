"""An app with a job to do: count what is in the modules of the standard library."""
