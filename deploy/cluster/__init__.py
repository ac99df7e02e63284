"""A small Kubernetes cluster on one Linux machine, whose pods run with this shim on the HCS emulator.

`python -m deploy.cluster --help` describes the command. All parts are in a network namespace of their own and keep
their files in one directory, so that several clusters run side by side and `down` removes everything.
"""
