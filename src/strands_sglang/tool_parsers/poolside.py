"""The Laguna format of Poolside, and Spark 2.5: GLM's, with the argument tags as plain text.

A newline on both sides of a value is framing (Laguna XS.2 prints it, XS-2.1 does not); on one side it is data.
"""

from __future__ import annotations

from strands_sglang.tool_parsers.glm import GLMToolParser


class PoolsideToolParser(GLMToolParser):
    """Reads the Laguna format."""

    newlines_framed = "both"
