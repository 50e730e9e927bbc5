"""The only folder that imports Strands: the model, its conversions, and the hook that bounds an agent's loop."""
