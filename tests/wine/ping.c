/* `ping` for containers of tests, which keeps them running: `ping [-t] [-n COUNT] [-w MILLISECONDS] HOST`, as on Windows,
 * but without ICMP. That of Wine can freeze the whole prefix: if it is killed while its driver nsiproxy.sys completes
 * a request, two threads of the driver's process wait for each other's lock, and mountmgr.sys, which every program
 * needs, is in the same process. */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int count, char **arguments) {
    const char *host = NULL;
    unsigned long requests = 4, sent = 0;
    int forever = 0;
    for (int index = 1; index < count; index++) {
        const char *argument = arguments[index];
        if (!strcmp(argument, "-t"))
            forever = 1;
        else if (!strcmp(argument, "-n") && index + 1 < count)
            requests = strtoul(arguments[++index], NULL, 10);
        else if (!strcmp(argument, "-w") && index + 1 < count)
            index++;
        else
            host = argument;
    }
    if (!host || *host == '-' || (!requests && !forever)) {
        fprintf(stderr, "usage: ping [-t] [-n COUNT] [-w MILLISECONDS] HOST\n");
        return 1;
    }
    printf("\nPinging %s with 32 bytes of data:\n", host);
    fflush(stdout);
    while (forever || sent < requests) {
        if (sent++)
            Sleep(1000);
        printf("Reply from %s: bytes=32 time<1ms TTL=128\n", host);
        fflush(stdout);
    }
    printf("\nPing statistics for %s:\n    Packets: Sent = %lu, Received = %lu, Lost = 0 (0%% loss)\n", host, sent, sent);
    return 0;
}
