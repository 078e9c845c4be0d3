"""Write a model for other programs, and open it as their users do."""
