"""Every statement that reads or changes queue rows, and nothing else."""
