"""Values in messages to people."""

MAX_SHOWN = 200


def shown(value: object) -> str:
    """`repr(value)` for a message: of bounded length, and never raises."""
    try:
        text = repr(value)
    except Exception:  # a repr of somebody else, or an int of thousands of digits
        return f"<{type(value).__name__}>"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
