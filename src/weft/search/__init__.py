"""Problem-independent optimisers over integer genomes; nothing of workflows is known here."""
