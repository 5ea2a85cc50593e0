"""A long run of hostile reviews, checked by an oracle that knows nothing of the product's code."""
