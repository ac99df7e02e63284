"""`runhcs config`: runtimes for containerd, RuntimeClasses for Kubernetes."""
