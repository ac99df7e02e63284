"""`runhcs replay`: the requests of a recording, sent to a shim whose HCS gives the recorded answers."""
