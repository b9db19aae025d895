"""What a decision costs, side by side with others. `make bench` prints it; nothing imports it."""
