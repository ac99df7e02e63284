"""What a shim does, recorded for `runhcs record`: requests, calls of HCS with documents and results, guest messages."""
