"""Microsoft's guest agent (gcs) as the guest of the emulator's Linux VMs: how it is built."""
