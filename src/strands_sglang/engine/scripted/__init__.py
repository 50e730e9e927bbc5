"""An engine that plays a script: the public test helper."""
