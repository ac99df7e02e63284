"""Host process containers: jobs of the host's own processes, behind the interface that tasks know containers by."""
