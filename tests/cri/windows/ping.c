/* ping.exe of the stand-in images: Wine's own has no option -t, with which the specs keep a container running.

     ping [-t | -n COUNT] HOST */
#define WIN32_LEAN_AND_MEAN
#include <winsock2.h>
#include <windows.h>

#include <iphlpapi.h>

#include <icmpapi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INTERVAL 1000

int main(int count, char **arguments) {
    WSADATA data;
    const char *host = NULL;
    long requests = 4;
    for (int index = 1; index < count; index++)
        if (strcmp(arguments[index], "-t") == 0)
            requests = -1;
        else if (strcmp(arguments[index], "-n") == 0 && index + 1 < count)
            requests = atol(arguments[++index]);
        else
            host = arguments[index];
    if (host == NULL || WSAStartup(MAKEWORD(2, 2), &data) != 0) {
        printf("Usage: ping [-t] [-n count] target_name\r\n");
        return 1;
    }
    struct hostent *found = gethostbyname(host);
    if (found == NULL) {
        printf("Ping request could not find host %s.\r\n", host);
        return 1;
    }
    IPAddr address = *(IPAddr *)found->h_addr_list[0];
    HANDLE icmp = IcmpCreateFile();
    int answered = 0;
    for (long sent = 0; requests < 0 || sent < requests; sent++) {
        char payload[32] = "", reply[sizeof(ICMP_ECHO_REPLY) + sizeof payload + 64];
        if (sent > 0)
            Sleep(INTERVAL);
        if (IcmpSendEcho(icmp, address, payload, sizeof payload, NULL, reply, sizeof reply, INTERVAL) > 0) {
            printf("Reply from %s: bytes=%d\n", inet_ntoa(*(struct in_addr *)&address), (int)sizeof payload);
            answered = 1;
        } else {
            printf("Request timed out.\n");
        }
        fflush(stdout);
    }
    return !answered;
}
