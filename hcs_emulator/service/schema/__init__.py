"""What HCS documents may contain: one strict table per document, checked before a call has any effect.

`shapes` defines the language of the tables, the other modules are the tables. A member that a table does not list is an
error, as it is for HCS: what passes here must pass on Windows.
"""
