"""`runhcs install`: the shim on this machine. `linux` builds a launcher; `windows` installs the files of the zip."""
