"""The whole loop on a tiny policy, driven through the real server by the official client."""
