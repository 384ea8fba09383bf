"""Our own search over orders, machines and node counts."""
