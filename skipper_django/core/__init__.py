"""The rules, in plain Python: no Django, no I/O, no clock on the wall."""
