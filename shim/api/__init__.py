"""Messages on the wire. Generated from proto/ by `make proto`, except `wire` (the runtime) and `packing` (helpers for Any)."""
