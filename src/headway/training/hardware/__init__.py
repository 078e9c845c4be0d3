"""What this machine can do: device, precision, memory, speed."""
