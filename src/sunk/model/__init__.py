"""Names and pure rules. Nothing here reads or writes anything, except `generate`, which writes what they give."""
