"""A project that uses the queue: `make demo` runs its main job, `make admin` shows it."""
