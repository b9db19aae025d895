"""What every other room stands on: it imports nothing of Doorward."""
