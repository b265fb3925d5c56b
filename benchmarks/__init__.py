"""How fast the queue is: `python -m benchmarks`."""
