"""What is known of a resource: followed by a watch, kept in a store, written through one door.

In come the lists and watches of a `Client`; out come stores of typed records with indexes, which subscribers hear
changes of and which know how fresh they are. Controllers and all parts of ours read stores and write through their
collection.

Read `collection` (the door), `store` (what is known), `watch` (how it is followed), `view` (what a watch has said)
and `stream` (its bytes), in this order.
"""
