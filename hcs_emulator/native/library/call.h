/* Calls of the service, for the exports. */
#ifndef CALL_H
#define CALL_H

#include "connection.h"
#include "handles.h"
#include "hcs.h"
#include "wire.h"

/* The arguments of a call. subject: the handle it is about; kind 0 if there is none. */
struct arguments {
    enum call call;
    HANDLE subject;
    enum kind kind;
    uint64_t number;
    uint32_t count;
    const PCWSTR *strings;
};

#define TEXTS(...) .count = sizeof((PCWSTR[]){__VA_ARGS__}) / sizeof(PCWSTR), .strings = (const PCWSTR[]){__VA_ARGS__}

/* Call and wait. The reply is always valid and must be disposed of; on failure its document is the error's. */
HRESULT call_on_connection(const struct request *request, uint64_t connection, uint32_t timeout, struct reply *reply);
HRESULT call_and_wait(const struct arguments *arguments, uint32_t timeout, struct reply *reply);

/* Variants for the common kinds of result. */
HRESULT call_simple(const struct arguments *arguments);
HRESULT call_for_document(const struct arguments *arguments, uint32_t timeout, PWSTR *document);
HRESULT call_to_open(const struct arguments *arguments, enum kind kind, HANDLE *opened, PWSTR *error);

/* Start a call that an operation tracks. opened: for calls that create an object of the given kind, else NULL. */
HRESULT call_tracked(const struct arguments *arguments, HCS_OPERATION operation, int32_t type, HANDLE *opened,
                     enum kind kind);

#endif
