/* Runs a fuzz target of this directory without libFuzzer: on each input of stdin, which has its length in 4 bytes (little
   endian) before it. The sanitizers end the process at the first error. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(void) {
    unsigned char length[4];
    unsigned count = 0;
    while (fread(length, 1, sizeof length, stdin) == sizeof length) {
        size_t size = length[0] | (size_t)length[1] << 8 | (size_t)length[2] << 16 | (size_t)length[3] << 24;
        uint8_t *data = malloc(size + 1);
        if (data == NULL || fread(data, 1, size, stdin) != size)
            return 2;
        LLVMFuzzerTestOneInput(data, size);
        free(data);
        count++;
    }
    printf("%u\n", count);
    return 0;
}
