/* web-server.exe PORT: the web server of the stand-in images. It answers each request with a short page. */
#define WIN32_LEAN_AND_MEAN
#include <winsock2.h>
#include <windows.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char PAGE[] = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 8\r\nConnection: close\r\n\r\nwelcome\n";

static void answer(SOCKET client) {
    char request[8192];
    int size = 0, received;
    while (size < (int)sizeof request - 1 && (received = recv(client, request + size, (int)sizeof request - 1 - size, 0)) > 0) {
        size += received;
        request[size] = '\0';
        if (strstr(request, "\r\n\r\n") != NULL) {
            send(client, PAGE, sizeof PAGE - 1, 0);
            shutdown(client, SD_SEND);
            break;
        }
    }
    closesocket(client);
}

int main(int count, char **arguments) {
    WSADATA data;
    if (count != 2 || WSAStartup(MAKEWORD(2, 2), &data) != 0)
        return 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((u_short)atoi(arguments[1]))};
    SOCKET listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 16) != 0) {
        fprintf(stderr, "port %s: error %d\n", arguments[1], WSAGetLastError());
        return 1;
    }
    for (;;) {
        SOCKET client = accept(listener, NULL, NULL);
        if (client == INVALID_SOCKET)
            return 1;
        answer(client);
    }
}
