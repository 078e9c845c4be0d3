"""The ground floor: files written whole, files of others opened safely, strict JSON, and quantities in words."""
