"""What can be learned about attention from the definition: its steps, its usual mistakes, its cost."""
