"""The worker: claim, run, settle, until told to stop."""
