"""A search for reviews that cost more than their size allows. It knows none of the rules."""
