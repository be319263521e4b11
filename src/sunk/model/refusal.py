"""The one exception that is meant for a person's eyes."""


class Refusal(Exception):
    """What was asked for cannot be done. The text says what was found and what to do next; the CLI exits with 2."""
