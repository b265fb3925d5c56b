"""A project that uses the queue: `make demo` fills and drains it, `make admin` shows it."""
