"""Training: pair tables as arrays, the objective bound to them, the loop that grows trees."""
