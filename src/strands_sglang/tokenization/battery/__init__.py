"""Conversations a chat template is checked with, and how they are played and judged.

`shape` is one conversation and `conversations` all of them; `sampling` tells what a model would say in them,
`rehearsal` plays one, `alignment` and `judge` compare its prompts with whole renderings, `evidence` confirms refusals,
`verdict` names the results. Used by `tokenization.check` alone.
"""
