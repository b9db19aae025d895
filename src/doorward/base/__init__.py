"""The foundation of all other rooms; it imports nothing else of Doorward."""
