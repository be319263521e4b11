"""Names and pure rules. Nothing here reads or writes anything."""
