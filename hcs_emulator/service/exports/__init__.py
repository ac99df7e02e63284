"""The exports of the HCS DLLs: one function per export, registered by `@export`. Importing the modules fills the
registry.
"""
