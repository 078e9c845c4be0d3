"""Used by every layer: atomic writes, safe reading of untrusted files, strict JSON, memory, quantities in words."""
