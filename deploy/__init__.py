"""What an operator applies to nodes and clusters."""
