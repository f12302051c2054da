"""What the kinds of group whose members have epochs have in common."""
