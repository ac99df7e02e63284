"""OCI specs, runtime options and annotations: parsed once, checked, typed. Knows nothing of HCS."""
