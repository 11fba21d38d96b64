"""The operators of a circuit, one module each: nodes, costs, words, soundness and how they run.

`docs/design/operators.md` says how they fit together. The list of them is in
`rekindle.circuit.nodes`.
"""
