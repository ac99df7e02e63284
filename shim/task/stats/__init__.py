"""Stats and Pids: querying HCS, and the messages made of it."""
