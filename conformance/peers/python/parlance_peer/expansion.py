"""How far bodies may expand (COD-1)."""


def largest_expansion(coded_length: int) -> int:
    return 65_536 + 100 * coded_length
