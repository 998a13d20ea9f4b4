"""The images that cells run in: how they are built, and the guest code inside them."""
