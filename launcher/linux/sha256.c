/* SHA-256 (FIPS 180-4), for the names of sockets: short inputs, once per command. */
#include <string.h>

#include "launcher.h"

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate_right(uint32_t word, int by) { return word >> by | word << (32 - by); }

static void process_block(uint32_t state[8], const unsigned char *block) {
    uint32_t words[64], mixed[8];
    for (int at = 0; at < 16; at++)
        words[at] = (uint32_t)block[4 * at] << 24 | (uint32_t)block[4 * at + 1] << 16 | (uint32_t)block[4 * at + 2] << 8 |
                    block[4 * at + 3];
    for (int at = 16; at < 64; at++) {
        uint32_t early = words[at - 15], late = words[at - 2];
        words[at] = words[at - 16] + (rotate_right(early, 7) ^ rotate_right(early, 18) ^ early >> 3) + words[at - 7] +
                    (rotate_right(late, 17) ^ rotate_right(late, 19) ^ late >> 10);
    }
    memcpy(mixed, state, sizeof mixed);
    for (int at = 0; at < 64; at++) {
        uint32_t a = mixed[0], e = mixed[4];
        uint32_t first = mixed[7] + (rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25)) +
                         ((e & mixed[5]) ^ (~e & mixed[6])) + round_constants[at] + words[at];
        uint32_t second = (rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22)) +
                          ((a & mixed[1]) ^ (a & mixed[2]) ^ (mixed[1] & mixed[2]));
        memmove(mixed + 1, mixed, 7 * sizeof *mixed);
        mixed[4] += first;
        mixed[0] = first + second;
    }
    for (int at = 0; at < 8; at++)
        state[at] += mixed[at];
}

void sha256_hex(const void *data, size_t length, char hex[65]) {
    uint32_t state[8] = {
        0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const unsigned char *bytes = data;
    unsigned char last[128] = {0};
    size_t rest = length % 64;
    for (size_t at = 0; at + 64 <= length; at += 64)
        process_block(state, bytes + at);
    if (rest > 0)
        memcpy(last, bytes + length - rest, rest);
    last[rest] = 0x80;
    size_t end = rest < 56 ? 64 : 128;
    for (int at = 0; at < 8; at++)
        last[end - 1 - (size_t)at] = (unsigned char)((uint64_t)length * 8 >> 8 * at);
    process_block(state, last);
    if (end == 128)
        process_block(state, last + 64);
    for (int at = 0; at < 64; at++)
        hex[at] = "0123456789abcdef"[state[at / 8] >> (28 - 4 * (at % 8)) & 15];
    hex[64] = '\0';
}
