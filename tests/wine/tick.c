/* A process for containers of tests: writes `line 1`, `line 2` …, five per second, until it is terminated. */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <stdio.h>

int main(void) {
    HANDLE output = GetStdHandle(STD_OUTPUT_HANDLE);
    for (int number = 1; number < 3000; number++) {
        char line[32];
        DWORD written;
        if (!WriteFile(output, line, (DWORD)snprintf(line, sizeof line, "line %d\r\n", number), &written, NULL))
            return 1;
        Sleep(200);
    }
    return 0;
}
