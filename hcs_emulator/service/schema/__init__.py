"""What documents may contain: strict tables per document, checked before anything happens.

`shapes` holds the small language in which the tables are written, the other modules the tables themselves. A member
that the table does not know is an error, as it is for HCS: what passes here must pass on Windows.
"""
