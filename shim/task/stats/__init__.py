"""Stats and Pids: queries of HCS, and their response messages."""
