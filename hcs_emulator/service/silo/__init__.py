"""Silos: the processes of a container, isolated on Linux by namespaces and cgroups. `namespaces.Silo` is the entry
point. (The silo for Windows programs is `wine.silo`.)
"""
