"""One container: its documents, layers, mounts and the ledger of what it holds."""
