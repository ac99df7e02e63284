/* C:\tool.exe of the recorded cases, with the behaviour that their output shows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **arguments)
{
    const char *verb = count > 1 ? arguments[1] : "";

    if (strcmp(verb, "sleep") == 0 && count > 2) {
        puts("sleeping");
        fflush(stdout);
        sleep((unsigned)atoi(arguments[2]));
        return 0;
    }
    if (strcmp(verb, "exit") == 0 && count > 2) {
        puts("out");
        fputs("err\r\n", stderr);
        return atoi(arguments[2]);
    }
    if (strcmp(verb, "cat") == 0) {
        int c;
        while ((c = getchar()) != EOF)
            putchar(c);
        return 0;
    }
    if (strcmp(verb, "env") == 0 && count > 2) {
        const char *value = getenv(arguments[2]);
        printf("%s=%s\n", arguments[2], value ? value : "");
        return 0;
    }
    for (int i = 0; i < count; i++)
        printf("arg%d=[%s]\n", i, arguments[i]);
    return 0;
}
