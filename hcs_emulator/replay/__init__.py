"""The emulator with recorded answers: a service that answers each call as a real one did, and runs nothing itself."""
