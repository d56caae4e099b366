"""Rows become system-level values: the board, SPEARBench's table, the report, the ranking in the terminal."""
