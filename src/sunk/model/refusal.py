"""The one exception that is meant for a person's eyes."""


class Refusal(Exception):  # noqa: N818 (it is no fault of ours, so no error)
    """What was asked for cannot be done. The text says what was found and what to do next; the CLI exits with 2."""
