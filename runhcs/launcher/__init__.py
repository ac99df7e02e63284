"""The program that containerd executes, and the compiled shim that it runs: made by `runhcs install`.

`launcher.c` asks a standby or becomes Python, `boot.py` is the first Python it runs, `bundle` makes the files that
both need, `build` compiles, `placing` puts all of it where it belongs.
"""
