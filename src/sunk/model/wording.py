"""Small helps for texts that people read."""


def counted(number: int, noun: str) -> str:
    """A number with its noun, such as `1 node` and `3 nodes`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def verb(number: int) -> str:
    """The verb after such a number: `1 node is`, `3 nodes are`."""
    return "is" if number == 1 else "are"
