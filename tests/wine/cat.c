/* A process for containers of tests: copies stdin to stdout until end of file, then prints the number of bytes to
   stderr. Wine's findstr and more are stubs. */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <stdio.h>

int main(void) {
    static char data[65536];
    HANDLE input = GetStdHandle(STD_INPUT_HANDLE), output = GetStdHandle(STD_OUTPUT_HANDLE);
    unsigned long total = 0;
    DWORD size, written;
    while (ReadFile(input, data, sizeof data, &size, NULL) && size > 0) {
        for (DWORD done = 0; done < size; done += written)
            if (!WriteFile(output, data + done, size - done, &written, NULL))
                return 1;
        total += size;
    }
    fprintf(stderr, "%lu\n", total);
    return 0;
}
