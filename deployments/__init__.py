"""The scorer API as a Ray Serve application."""
