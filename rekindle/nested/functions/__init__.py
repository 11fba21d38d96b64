"""Changes of functions: a simply typed lambda calculus in which every term has its delta.

This package is theory that runs, on Python values and without Spark: chapter 4 of Lupei's thesis on
incremental computation over nested collections. Each module uses only those before it.

| module | holds |
|---|---|
| `types` | unit, groups, products and functions (section 4, figure 4.1) |
| `terms` | the constructs with their types, and operators made of them (figure 4.1, A.4.1) |
| `delta` | the delta of every construct (figure 4.3), deltas of deltas (section 4.3) |
| `evaluation` | what a term gives for a value; functions as closures; equal on samples |
| `equations` | the laws as pairs of terms (figure 4.2, lemmas 19 and 20, theorem 12) |
| `primitives` | operators on integers and Z-sets, each with its delta and its cost |
| `cost` | what evaluation costs, and which cost is below which (figure 4.4, definitions 2 and 3) |
| `text` | a term and its delta in the notation of the chapter |
| `redefinition` | what production takes from it: the change of a result when a function changes |
"""
