"""How a share is asked for and counted: fractions and the resource names that carry them."""
