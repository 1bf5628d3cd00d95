"""Derived values: arithmetic on a cluster, such as nodes, address blocks, the layout of the fabric and the cost.

One question, one function. Rules, the plan and commands use the same functions, before it is known whether the stack file is valid.
The description of everything that will exist is `rackwright.plan`.
"""
