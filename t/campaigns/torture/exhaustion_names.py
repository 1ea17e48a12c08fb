"""Makes any number of names that collide under common hash functions.

All names of a kind lead the hash function from its start to the same state, whatever the number of
buckets. A name is a sequence of stages, and each stage leads from one state to the next in two
ways, so `stages` stages make 2^stages names. No byte is a blank, a line end or NUL, so the names
are also valid keys of the text protocol.
"""

import struct

M32 = 0xFFFFFFFF
FORBIDDEN = frozenset(b" \r\n\0")


def fnv1a_32(data):
    h = 0x811C9DC5
    for byte in data:
        h = (h ^ byte) * 0x01000193 & M32
    return h


def fnv1a_64_low(data):
    """The low half of the 64-bit hash. It does not depend on the high half."""
    h = 0x84222325
    for byte in data:
        h = (h ^ byte) * 0x1B3 & M32
    return h


def djb2(data):
    h = 5381
    for byte in data:
        h = h * 33 + byte & M32
    return h


def _rotate(x, bits):
    return (x << bits | x >> 32 - bits) & M32


def _murmur_mix(k):
    return _rotate(k * 0xCC9E2D51 & M32, 15) * 0x1B873593 & M32


def _murmur_unmix(k):
    k = k * pow(0x1B873593, -1, 1 << 32) & M32
    return _rotate(k, 17) * pow(0xCC9E2D51, -1, 1 << 32) & M32


def _murmur_block(h, block):
    return _rotate(h ^ _murmur_mix(block), 13) * 5 + 0xE6546B64 & M32


def murmur3(data):
    """MurmurHash3_x86_32 with seed 0, for whole blocks."""
    h = 0
    for (block,) in struct.iter_unpack("<I", data):
        h = _murmur_block(h, block)
    h ^= len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B & M32
    h = (h ^ h >> 13) * 0xC2B2AE35 & M32
    return h ^ h >> 16


def _fnv_stages(start, prime, stages, rng):
    """
    For each stage, two blocks of four bytes that lead to the same state, found by a birthday
    search.
    """
    pairs, h = [], start
    letters = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
    for _ in range(stages):
        seen = {}
        while True:
            block = bytes(rng.choices(letters, k=4))
            state = h
            for byte in block:
                state = (state ^ byte) * prime & M32
            other = seen.setdefault(state, block)
            if other != block:
                pairs.append((other, block))
                h = state
                break
    return pairs


def _murmur_stages(stages, rng):
    """
    For each stage, two pairs of blocks; the second block of a pair undoes the difference of the
    first.
    """
    pairs, h = [], 0
    while len(pairs) < stages:
        first, other, second = (rng.randrange(1 << 32) for _ in range(3))
        states = [_murmur_block(h, first), _murmur_block(h, other)]
        undoing = _murmur_unmix(_murmur_mix(second) ^ states[0] ^ states[1])
        ways = struct.pack("<II", first, second), struct.pack("<II", other, undoing)
        if first == other or FORBIDDEN & set(ways[0] + ways[1]):
            continue
        pairs.append(ways)
        h = _murmur_block(states[0], second)
    return pairs


def colliding(kind, count, rng):
    """`count` names of the same length with the same hash of this kind."""
    stages = max(1, (count - 1).bit_length())
    if kind == "djb2":
        pairs = [(b"Ez", b"FY")] * stages
    elif kind == "fnv1a-32":
        pairs = _fnv_stages(0x811C9DC5, 0x01000193, stages, rng)
    elif kind == "fnv1a-64":
        pairs = _fnv_stages(0x84222325, 0x1B3, stages, rng)
    else:
        pairs = _murmur_stages(stages, rng)
    return [b"".join(pairs[i][n >> i & 1] for i in range(stages)) for n in range(count)]


HASHES = {"djb2": djb2, "fnv1a-32": fnv1a_32, "fnv1a-64": fnv1a_64_low, "murmur3": murmur3}
