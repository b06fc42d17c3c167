"""Long and large fits: checkpoints, rows that do not fit in memory, and several processes.

A killed run continues from its checkpoint and ends with the same bits.
"""
