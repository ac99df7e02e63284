"""What drives shims as containerd does: candidates, bundles, the driver, the run itself."""
