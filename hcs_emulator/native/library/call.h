/* Calls of the service, as the exports make them. */
#ifndef CALL_H
#define CALL_H

#include "connection.h"
#include "handles.h"
#include "hcs.h"
#include "wire.h"

/* What an export passes on. subject: the handle it is about; 0 as its kind if there is none. */
struct arguments {
    enum call call;
    HANDLE subject;
    enum kind kind;
    uint64_t number;
    uint32_t count;
    const PCWSTR *strings;
};

#define TEXTS(...) .count = sizeof((PCWSTR[]){__VA_ARGS__}) / sizeof(PCWSTR), .strings = (const PCWSTR[]){__VA_ARGS__}

/* Call and wait. The reply is always valid and to be disposed of; its document is on failure the error's. */
HRESULT call_on_connection(const struct request *request, uint64_t connection, uint32_t timeout, struct reply *reply);
HRESULT call_and_wait(const struct arguments *arguments, uint32_t timeout, struct reply *reply);

/* The common endings of it. */
HRESULT call_simple(const struct arguments *arguments);
HRESULT call_for_document(const struct arguments *arguments, uint32_t timeout, PWSTR *document);
HRESULT call_to_open(const struct arguments *arguments, enum kind kind, HANDLE *opened, PWSTR *error);

/* Call and let an operation track it. opened: for calls that make something of the given kind, else NULL. */
HRESULT call_tracked(const struct arguments *arguments, HCS_OPERATION operation, int32_t type, HANDLE *opened, enum kind kind);

#endif
