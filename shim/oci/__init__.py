"""OCI specs, runtime options and annotations: read once, checked, typed. Knows nothing of how a container is made."""
