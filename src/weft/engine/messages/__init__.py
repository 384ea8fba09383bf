"""What the engine hears and says, as plain records, and the journal that keeps them."""
