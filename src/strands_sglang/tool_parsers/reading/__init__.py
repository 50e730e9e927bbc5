"""The engine that all formats share.

| module | owns |
| --- | --- |
| `tokens` | token ids to places in the text: which delimiters were sampled as one token |
| `source` | the text of a turn with its delimiters, tools and end |
| `turn` | the walk: reasoning, content, blocks; the policy for reasoning; the result |
| `strict_json` | JSON values as RFC 8259 has them, read from a place |
| `json_call` | the object that is a call, member by member |
| `schema` | declared types, and raw text to values |
| `tag_values` | parameters as raw text between tags; where a value ends |
| `format` | `FormatParser`, `BracketedParser`: the bases, and blocks that break |
| `tagged_json` | `TaggedJSONParser`: opener, JSON, closer |
| `tagged_values` | `TaggedValuesParser`: opener, head, parameters, closer |

To add a format: one file beside this package with a class that derives from the base nearest to it and holds
only what is the format's own (`hermes.py` and `qwen_xml.py` are the examples); one line in
`registry.FORMATS`, and one for each alias; one case file in the tests, from which the strictness, round-trip and
speed suites take all they need.
"""
