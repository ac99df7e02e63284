"""Messages of the gRPC services that containerd offers its clients: generated from proto/ by `make proto`."""
