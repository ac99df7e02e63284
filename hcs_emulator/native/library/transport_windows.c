/* The transport on Windows: TCP on the loopback interface, since the service runs on the Linux side of Wine.

   <HCS_EMULATOR_DIR>/loopback holds the port and a secret, readable by its owner only. Every connection begins with
   the secret and a ticket: 0 for calls, otherwise the number of a stream. Where Linux passes descriptors, the
   service sends a frame of kind 4 with a ticket for each stream before the response. Each becomes an overlapped
   pipe, as HCS returns them, and a thread that copies between pipe and socket. */
#define WIN32_LEAN_AND_MEAN
#include <winsock2.h>
#include <windows.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "threads.h"
#include "transport.h"

#define SEND_MILLISECONDS 60000
#define SECRET 64
#define HEADER 16 /* size, kind and three zeros, id */
#define COPY (64 << 10)
#define TICKETS 4

enum { KIND_TICKETS = 4 };

struct transport {
    SOCKET socket;
    unsigned short port;
    char secret[SECRET];
    unsigned char header[HEADER];
    size_t header_left; /* bytes of it that were not returned yet */
    size_t body_left;
};

/* A connection on which the secret and the ticket were sent. */
static SOCKET dial(unsigned short port, const char secret[SECRET], uint64_t ticket) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    SOCKET made = socket(AF_INET, SOCK_STREAM, 0);
    if (made == INVALID_SOCKET)
        return made;
    SetHandleInformation((HANDLE)made, HANDLE_FLAG_INHERIT, 0);
    char greeting[SECRET + sizeof ticket];
    memcpy(greeting, secret, SECRET);
    memcpy(greeting + SECRET, &ticket, sizeof ticket);
    DWORD limit = SEND_MILLISECONDS;
    BOOL at_once = TRUE;
    setsockopt(made, SOL_SOCKET, SO_SNDTIMEO, (const char *)&limit, sizeof limit);
    setsockopt(made, IPPROTO_TCP, TCP_NODELAY, (const char *)&at_once, sizeof at_once);
    if (connect(made, (struct sockaddr *)&address, sizeof address) == 0 &&
        send(made, greeting, sizeof greeting, 0) == sizeof greeting)
        return made;
    closesocket(made);
    return INVALID_SOCKET;
}

static bool read_whereabouts(struct transport *transport, char reason[TRANSPORT_REASON]) {
    char path[512], directory[400] = "/run/hcs-emulator";
    DWORD length = GetEnvironmentVariableA("HCS_EMULATOR_DIR", directory, sizeof directory);
    if (length >= sizeof directory) {
        snprintf(reason, TRANSPORT_REASON, "HCS_EMULATOR_DIR is too long: choose a shorter one");
        return false;
    }
    /* A Linux path is below Wine's drive Z:. */
    snprintf(path, sizeof path, "%s%s/loopback", directory[0] == '/' ? "Z:" : "", directory);
    FILE *file = fopen(path, "rb");
    unsigned port = 0;
    bool whole = file != NULL && fscanf(file, "%u ", &port) == 1 && fread(transport->secret, SECRET, 1, file) == 1;
    if (file != NULL)
        fclose(file);
    transport->port = (unsigned short)port;
    if (!whole)
        snprintf(reason, TRANSPORT_REASON,
                 "no emulator service for Windows programs runs here (%s cannot be read): start one with "
                                           "`runhcs emulator start` and --wine-prefix", path);
    return whole;
}

struct transport *transport_connect(char reason[TRANSPORT_REASON]) {
    WSADATA data;
    /* Wine has no Hyper-V sockets and no such DLL. A prefix that has one, for Go programs, has corrections in it
       that every program with utility VMs needs. */
    LoadLibraryA("bcryptprimitives.dll");
    struct transport *transport = calloc(1, sizeof *transport);
    if (transport == NULL || WSAStartup(MAKEWORD(2, 2), &data) != 0) {
        snprintf(reason, TRANSPORT_REASON, "there is no memory, or no Winsock");
        free(transport);
        return NULL;
    }
    if (read_whereabouts(transport, reason)) {
        transport->socket = dial(transport->port, transport->secret, 0);
        if (transport->socket != INVALID_SOCKET)
            return transport;
        snprintf(reason, TRANSPORT_REASON,
                 "no service listens on port %u of the loopback interface (error %d): start the emulator's service",
                 transport->port, WSAGetLastError());
    }
    free(transport);
    return NULL;
}

bool transport_send(struct transport *transport, const void *data, size_t size) {
    const char *position = data;
    while (size > 0) {
        int sent = send(transport->socket, position, size > INT32_MAX ? INT32_MAX : (int)size, 0);
        if (sent <= 0)
            return false;
        position += sent;
        size -= (size_t)sent;
    }
    return true;
}

static bool receive_exactly(SOCKET from, void *data, size_t size) {
    for (size_t done = 0; done < size;) {
        int received = recv(from, (char *)data + done, (int)(size - done), 0);
        if (received <= 0)
            return false;
        done += (size_t)received;
    }
    return true;
}

/* -- streams */

struct stream {
    SOCKET socket;
    HANDLE pipe; /* our end; the caller has the other end */
    char buffer[COPY];
};

static void end_stream(struct stream *stream) {
    CloseHandle(stream->pipe);
    closesocket(stream->socket);
    free(stream);
}

static void move_output(void *argument) {
    struct stream *stream = argument;
    int received;
    DWORD written;
    while ((received = recv(stream->socket, stream->buffer, COPY, 0)) > 0)
        for (int done = 0; done < received; done += (int)written)
            if (!WriteFile(stream->pipe, stream->buffer + done, (DWORD)(received - done), &written, NULL)) {
                end_stream(stream); /* the reader has closed its end */
                return;
            }
    end_stream(stream);
}

static void move_input(void *argument) {
    struct stream *stream = argument;
    DWORD got;
    while (ReadFile(stream->pipe, stream->buffer, COPY, &got, NULL) && got > 0)
        for (DWORD done = 0; done < got;) {
            int sent = send(stream->socket, stream->buffer + done, (int)(got - done), 0);
            if (sent <= 0) {
                end_stream(stream);
                return;
            }
            done += (DWORD)sent;
        }
    end_stream(stream);
}

/* Both ends of a pipe that no other process can open: our own end uses the only instance of the name. */
static bool make_pipe(HANDLE *theirs, HANDLE *ours) {
    static volatile LONG number;
    char name[100];
    snprintf(name, sizeof name, "\\\\.\\pipe\\hcs-emulator-%lu-%ld", GetCurrentProcessId(),
             InterlockedIncrement(&number));
    *theirs = CreateNamedPipeA(name, PIPE_ACCESS_DUPLEX | FILE_FLAG_OVERLAPPED | FILE_FLAG_FIRST_PIPE_INSTANCE,
                               PIPE_REJECT_REMOTE_CLIENTS, 1, COPY, COPY, 0, NULL);
    if (*theirs == INVALID_HANDLE_VALUE)
        return false;
    *ours = CreateFileA(name, GENERIC_READ | GENERIC_WRITE, 0, NULL, OPEN_EXISTING, 0, NULL);
    if (*ours != INVALID_HANDLE_VALUE)
        return true;
    CloseHandle(*theirs);
    return false;
}

/* The handle for a ticket, whose lowest bit is set if the stream is an input of the process. NULL on failure. */
static HANDLE open_stream(struct transport *transport, uint64_t ticket) {
    struct stream *stream = calloc(1, sizeof *stream);
    HANDLE theirs;
    if (stream == NULL)
        return NULL;
    stream->socket = dial(transport->port, transport->secret, ticket);
    if (stream->socket == INVALID_SOCKET || !make_pipe(&theirs, &stream->pipe)) {
        if (stream->socket != INVALID_SOCKET)
            closesocket(stream->socket);
        free(stream);
        return NULL;
    }
    if (thread_start(ticket & 1 ? move_input : move_output, stream))
        return theirs;
    CloseHandle(theirs);
    end_stream(stream);
    return NULL;
}

static bool take_tickets(struct transport *transport, size_t size, HANDLE handles[TRANSPORT_HANDLES], unsigned *count,
                         bool *truncated) {
    uint64_t tickets[TICKETS];
    if (size > sizeof tickets || size % sizeof *tickets || !receive_exactly(transport->socket, tickets, size))
        return false;
    for (size_t index = 0; index < size / sizeof *tickets; index++) {
        HANDLE opened = *count < TRANSPORT_HANDLES ? open_stream(transport, tickets[index]) : NULL;
        if (opened != NULL)
            handles[(*count)++] = opened;
        else
            *truncated = true;
    }
    return true;
}

/* -- receiving */

static bool next_header(struct transport *transport, HANDLE handles[TRANSPORT_HANDLES], unsigned *count,
                        bool *truncated) {
    for (;;) {
        uint32_t size;
        if (!receive_exactly(transport->socket, transport->header, HEADER))
            return false;
        memcpy(&size, transport->header, sizeof size);
        if (size < HEADER - sizeof size)
            return false;
        size -= HEADER - (uint32_t)sizeof size;
        if (transport->header[sizeof size] != KIND_TICKETS) {
            transport->header_left = HEADER;
            transport->body_left = size;
            return true;
        }
        if (!take_tickets(transport, size, handles, count, truncated))
            return false;
    }
}

size_t transport_receive(struct transport *transport, void *data, size_t size, HANDLE handles[TRANSPORT_HANDLES],
                         unsigned *count, bool *truncated) {
    if (transport->header_left == 0 && transport->body_left == 0 && !next_header(transport, handles, count, truncated))
        return 0;
    if (transport->header_left > 0) {
        size_t part = size < transport->header_left ? size : transport->header_left;
        memcpy(data, transport->header + HEADER - transport->header_left, part);
        transport->header_left -= part;
        return part;
    }
    int received = recv(transport->socket, data, (int)(size < transport->body_left ? size : transport->body_left), 0);
    if (received <= 0)
        return 0;
    transport->body_left -= (size_t)received;
    return (size_t)received;
}

/* Nothing may be received here, not even with MSG_PEEK: the reading thread may receive the data first, and this
   thread would wait for more while the caller holds a lock that the reading thread needs. A closed connection stays
   readable and empty; one whose data was just received does not. */
bool transport_is_alive(struct transport *transport) {
    for (int look = 0; look < 3; look++) {
        fd_set readable;
        struct timeval at_once = {0};
        u_long size = 0;
        FD_ZERO(&readable);
        FD_SET(transport->socket, &readable);
        if (select(0, &readable, NULL, NULL, &at_once) == 0 ||
            (ioctlsocket(transport->socket, FIONREAD, &size) == 0 && size > 0))
            return true;
    }
    return false;
}

void transport_end(struct transport *transport) { shutdown(transport->socket, SD_BOTH); }

void transport_close(struct transport *transport) {
    closesocket(transport->socket);
    free(transport);
}

void transport_close_handle(HANDLE handle) { CloseHandle(handle); }

void transport_abandon(void) { /* there is no fork */ }
