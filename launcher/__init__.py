"""What containerd executes: the launcher in C for Linux and Windows, and the Python code that builds it.

`common` holds what both systems share, `linux` what `runhcs install` compiles and writes, `windows` what
`scripts/dist_windows.py` compiles into the zip. README.md describes the data flow.
"""
