"""The pages of the shop: views, forms, and the headers of all answers."""
