/* computenetwork.dll: networks, namespaces and endpoints, with the same seven calls each. */
#include "call.h"
#include "guid.h"
#include "remote.h"

typedef void *HCN_HANDLE;

/* The document is the result on success, the error record on failure. */
static HRESULT with_text(enum call call, HCN_HANDLE handle, enum kind kind, PCWSTR text, PWSTR *result, PWSTR *error) {
    struct reply reply;
    struct arguments arguments = {.call = call, .subject = handle, .kind = kind, TEXTS(text)};
    HRESULT code = call_and_wait(&arguments, HCS_INFINITE, &reply);
    PWSTR *taken = FAILED(code) ? error : result;
    if (result != NULL)
        *result = NULL;
    if (error != NULL)
        *error = NULL;
    if (taken != NULL) {
        *taken = reply.document;
        reply.document = NULL;
    }
    reply_dispose(&reply);
    return code;
}

static HRESULT by_id(enum call call, const GUID *id, HCN_HANDLE parent, PCWSTR settings, uint32_t count, enum kind kind,
                     HCN_HANDLE *opened, PWSTR *error) {
    if (id == NULL)
        return E_INVALIDARG;
    char16_t text[GUID_CHARS];
    guid_to_text(id, text);
    PCWSTR strings[] = {text, settings};
    struct arguments arguments = {.call = call, .subject = parent, .kind = parent == NULL ? 0 : KIND_NETWORK,
                                  .count = count, .strings = strings};
    if (kind != 0)
        return call_to_open(&arguments, kind, opened, error);
    struct reply reply;
    HRESULT code = call_and_wait(&arguments, HCS_INFINITE, &reply);
    if (error != NULL) {
        *error = FAILED(code) ? reply.document : NULL;
        reply.document = FAILED(code) ? NULL : reply.document;
    }
    reply_dispose(&reply);
    return code;
}

#define COMMON(One, Many, kind)                                                                                \
    HCS_EXPORT HRESULT WINAPI HcnEnumerate##Many(PCWSTR query, PWSTR *found, PWSTR *error) {                   \
        return with_text(CALL_HcnEnumerate##Many, NULL, 0, query, found, error);                               \
    }                                                                                                          \
    HCS_EXPORT HRESULT WINAPI HcnOpen##One(const GUID *id, HCN_HANDLE *opened, PWSTR *error) {                 \
        return by_id(CALL_HcnOpen##One, id, NULL, NULL, 1, kind, opened, error);                               \
    }                                                                                                          \
    HCS_EXPORT HRESULT WINAPI HcnModify##One(HCN_HANDLE handle, PCWSTR settings, PWSTR *error) {               \
        return with_text(CALL_HcnModify##One, handle, kind, settings, NULL, error);                            \
    }                                                                                                          \
    HCS_EXPORT HRESULT WINAPI HcnQuery##One##Properties(HCN_HANDLE handle, PCWSTR query, PWSTR *properties,    \
                                                        PWSTR *error) {                                        \
        return with_text(CALL_HcnQuery##One##Properties, handle, kind, query, properties, error);              \
    }                                                                                                          \
    HCS_EXPORT HRESULT WINAPI HcnDelete##One(const GUID *id, PWSTR *error) {                                   \
        return by_id(CALL_HcnDelete##One, id, NULL, NULL, 1, 0, NULL, error);                                  \
    }                                                                                                          \
    HCS_EXPORT HRESULT WINAPI HcnClose##One(HCN_HANDLE handle) { return remote_close(handle, kind); }

COMMON(Network, Networks, KIND_NETWORK)
COMMON(Namespace, Namespaces, KIND_NAMESPACE)
COMMON(Endpoint, Endpoints, KIND_ENDPOINT)

HCS_EXPORT HRESULT WINAPI HcnCreateNetwork(const GUID *id, PCWSTR settings, HCN_HANDLE *network, PWSTR *error) {
    return by_id(CALL_HcnCreateNetwork, id, NULL, settings, 2, KIND_NETWORK, network, error);
}

HCS_EXPORT HRESULT WINAPI HcnCreateNamespace(const GUID *id, PCWSTR settings, HCN_HANDLE *opened, PWSTR *error) {
    return by_id(CALL_HcnCreateNamespace, id, NULL, settings, 2, KIND_NAMESPACE, opened, error);
}

HCS_EXPORT HRESULT WINAPI HcnCreateEndpoint(HCN_HANDLE network, const GUID *id, PCWSTR settings, HCN_HANDLE *endpoint,
                                            PWSTR *error) {
    if (network == NULL)
        return E_INVALIDARG;
    return by_id(CALL_HcnCreateEndpoint, id, network, settings, 2, KIND_ENDPOINT, endpoint, error);
}
