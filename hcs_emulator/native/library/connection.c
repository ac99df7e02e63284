#include "connection.h"

#include <stdio.h>
#include <stdlib.h>

#include "library.h"
#include "remote.h"

#define BUCKETS 64

struct connection {
    struct library *library;
    struct transport *transport;
    uint64_t number, last_id;
    unsigned references;
    Mutex sending; /* one frame at a time */
    struct pending *pending[BUCKETS];
};

void connector_init(struct connector *connector) {
    *connector = (struct connector){0};
    condition_init(&connector->changed);
}

void reply_dispose(struct reply *reply) {
    free(reply->document);
    for (int index = 0; index < 3; index++)
        if (reply->streams[index] != NULL)
            transport_close_handle(reply->streams[index]);
    *reply = (struct reply){0};
}

static void connection_release(struct connection *connection) {
    if (--connection->references > 0)
        return;
    transport_close(connection->transport);
    mutex_destroy(&connection->sending);
    free(connection);
}

static struct pending *take_pending(struct connection *connection, uint64_t id) {
    for (struct pending **at = &connection->pending[id % BUCKETS]; *at != NULL; at = &(*at)->next) {
        struct pending *found = *at;
        if (found->id == id) {
            *at = found->next;
            return found;
        }
    }
    return NULL;
}

void connection_forget(struct library *library, struct pending *pending) {
    struct connection *connection = library->connector.connection;
    if (connection != NULL)
        take_pending(connection, pending->id);
}

static void complete(struct pending *pending, struct reply *reply) {
    if (pending != NULL)
        pending->complete(pending, reply);
    reply_dispose(reply);
}

static void lost(struct connection *connection) {
    struct library *library = connection->library;
    mutex_lock(&library->lock);
    library->connector.connection = NULL;
    for (int bucket = 0; bucket < BUCKETS; bucket++)
        while (connection->pending[bucket] != NULL) {
            struct pending *pending = connection->pending[bucket];
            connection->pending[bucket] = pending->next;
            struct reply reply = {.result = HCS_E_SERVICE_DISCONNECT};
            reply.document = error_document(reply.result,
                                            "the connection to the emulator service was lost: open the system again; "
                                                          "service.log in the emulator's directory may say why");
            complete(pending, &reply);
        }
    remotes_disconnected(library, connection->number);
    condition_broadcast(&library->connector.changed);
    connection_release(connection);
    mutex_unlock(&library->lock);
}

/* Descriptors that were received before their frame is complete. */
struct received {
    HANDLE handles[TRANSPORT_HANDLES];
    unsigned count;
    bool truncated;
};

static void give_streams(struct message *message, struct received *received) {
    unsigned used = 0;
    for (unsigned bit = 0; bit < 3; bit++)
        if ((message->stream_bits & 1u << bit) && used < received->count)
            message->reply.streams[bit] = received->handles[used++];
        else if (message->stream_bits & 1u << bit)
            received->truncated = true;
    for (unsigned index = used; index < received->count; index++)
        received->handles[index - used] = received->handles[index];
    received->count -= used;
    if (message->stream_bits && received->truncated) {
        received->truncated = false;
        uint64_t handle = message->reply.handle;
        reply_dispose(&message->reply);
        message->reply.handle = handle;
        message->reply.result = E_TOO_MANY_OPEN_FILES;
        message->reply.document = error_document(E_TOO_MANY_OPEN_FILES,
                                                 "this process has no descriptors left for stdio: close some");
    }
}

static void dispatch(struct connection *connection, struct message *message) {
    struct library *library = connection->library;
    mutex_lock(&library->lock);
    message->reply.connection = connection->number;
    if (message->kind == MESSAGE_REPLY)
        complete(take_pending(connection, message->id), &message->reply);
    else
        remote_event(library, connection->number, message->id, message->event_type, message->reply.document);
    mutex_unlock(&library->lock);
}

static void read_frames(void *argument) {
    struct connection *connection = argument;
    struct received received = {.count = 0};
    struct frames frames;
    struct message message;
    uint8_t *space;
    size_t size;
    enum next next = NEXT_NONE;
    bool ready = frames_init(&frames);
    while (ready && next != NEXT_GARBAGE && (space = frames_space(&frames, &size)) != NULL) {
        size = transport_receive(connection->transport, space, size, received.handles, &received.count,
                                 &received.truncated);
        if (size == 0)
            break;
        frames_received(&frames, size);
        while ((next = frames_next(&frames, &message)) == NEXT_MESSAGE) {
            if (message.kind == MESSAGE_REPLY)
                give_streams(&message, &received);
            dispatch(connection, &message);
        }
    }
    frames_free(&frames);
    for (unsigned index = 0; index < received.count; index++)
        transport_close_handle(received.handles[index]);
    transport_end(connection->transport);
    lost(connection);
}

static struct connection *connection_create(struct library *library, struct transport *transport) {
    struct connection *connection = calloc(1, sizeof *connection);
    if (connection == NULL)
        return NULL;
    connection->library = library;
    connection->transport = transport;
    connection->number = ++library->connector.last_number;
    connection->references = 1; /* the reference of the reading thread */
    mutex_init(&connection->sending);
    if (thread_start(read_frames, connection))
        return connection;
    mutex_destroy(&connection->sending);
    free(connection);
    return NULL;
}

/* Threads that arrive while one connects wait for it and share its result: a service that cannot start delays all of
   them once. */
static HRESULT connect_service(struct library *library) {
    struct connector *connector = &library->connector;
    if (connector->connecting) {
        uint64_t attempt = connector->attempts;
        while (connector->attempts == attempt)
            condition_wait(&connector->changed, &library->lock, NEVER);
        if (connector->connection == NULL)
            return connector->last_failed ? HCS_E_SERVICE_NOT_AVAILABLE : HCS_E_SERVICE_DISCONNECT;
        return S_OK;
    }
    char reason[TRANSPORT_REASON] = "";
    connector->connecting = true;
    mutex_unlock(&library->lock);
    struct transport *transport = transport_connect(reason);
    mutex_lock(&library->lock);
    if (transport != NULL && (connector->connection = connection_create(library, transport)) == NULL) {
        transport_close(transport);
        snprintf(reason, sizeof reason, "no memory or threads left to connect to the emulator service");
    }
    connector->last_failed = connector->connection == NULL;
    if (connector->last_failed)
        snprintf(connector->reason, sizeof connector->reason, "%s", reason);
    connector->connecting = false;
    connector->attempts++;
    condition_broadcast(&connector->changed);
    return connector->last_failed ? HCS_E_SERVICE_NOT_AVAILABLE : S_OK;
}

/* A call that needs no handle may go to any service: avoid one that has just exited if another can be started. */
static void leave_dead(struct library *library) {
    struct connection *dead = library->connector.connection;
    if (dead == NULL || transport_is_alive(dead->transport))
        return;
    while (library->connector.connection == dead)
        condition_wait(&library->connector.changed, &library->lock, NEVER);
}

HRESULT connection_send(struct library *library, uint64_t *number, uint8_t *frame, size_t size,
                        struct pending *pending) {
    if (*number == 0)
        leave_dead(library);
    struct connection *connection = library->connector.connection;
    if (*number != 0 && (connection == NULL || connection->number != *number))
        return HCS_E_SERVICE_DISCONNECT;
    if (connection == NULL) {
        HRESULT code = connect_service(library);
        if (FAILED(code))
            return code;
        connection = library->connector.connection;
    }
    *number = connection->number;
    pending->id = ++connection->last_id;
    pending->next = connection->pending[pending->id % BUCKETS];
    connection->pending[pending->id % BUCKETS] = pending;
    wire_set_id(frame, pending->id);
    connection->references++;
    mutex_unlock(&library->lock);

    mutex_lock(&connection->sending);
    bool sent = transport_send(connection->transport, frame, size);
    mutex_unlock(&connection->sending);
    if (!sent)
        /* the reading thread notices it and fails all pending calls, this one included */
        transport_end(connection->transport);

    mutex_lock(&library->lock);
    connection_release(connection);
    return S_OK;
}
