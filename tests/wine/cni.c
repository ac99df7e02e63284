/* A stub of a CNI plugin for tests of CRI: reports an address of the pod. With WITH_ENDPOINT it also creates an endpoint
   of that address in the pod's HCN namespace, as a plugin on Windows does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef WITH_ENDPOINT
#include <windows.h>
#include <objbase.h>

#define VERSION L"\"SchemaVersion\": {\"Major\": 2, \"Minor\": 0}"
#define NETWORK L"5f1d6b4c-0b1a-4d3e-9a55-10f0c5a7e001"

/* All functions of the library take up to five pointers. */
typedef HRESULT(WINAPI *Function)(const void *, const void *, const void *, const void *, const void *);

static HRESULT call(const char *name, const void *a, const void *b, const void *c, const void *d, const void *e) {
    Function function = (Function)(void *)GetProcAddress(LoadLibraryW(L"computenetwork.dll"), name);
    HRESULT code = function == NULL ? E_NOTIMPL : function(a, b, c, d, e);
    if (FAILED(code))
        fprintf(stderr, "%s: 0x%08lx\n", name, (unsigned long)code);
    return code;
}

static GUID guid(const wchar_t *text) {
    GUID found;
    wchar_t braced[64];
    swprintf(braced, 64, L"{%ls}", text);
    return FAILED(CLSIDFromString(braced, &found)) ? (GUID){0} : found;
}

/* The endpoint has the id of its namespace. */
static HRESULT add_endpoint(const wchar_t *namespace) {
    GUID network = guid(NETWORK), id = guid(namespace);
    void *network_handle = NULL, *endpoint = NULL, *namespace_handle = NULL;
    wchar_t *error = NULL, settings[1024];
    if (FAILED(call("HcnOpenNetwork", &network, &network_handle, &error, NULL, NULL)) &&
        FAILED(call("HcnCreateNetwork", &network, L"{\"Name\": \"cni\", \"Type\": \"NAT\", " VERSION L"}", &network_handle,
                    &error, NULL)))
        return E_FAIL;
    swprintf(settings, 1024,
             L"{\"Name\": \"eth0\", \"HostComputeNetwork\": \"%ls\", \"MacAddress\": \"00-15-5D-00-00-11\", \"Dns\": {},"
             L" \"IpConfigurations\": [{\"IpAddress\": \"10.11.12.13\", \"PrefixLength\": 24}],"
             L" \"Routes\": [{\"NextHop\": \"10.11.12.1\", \"DestinationPrefix\": \"0.0.0.0/0\"}], %ls}",
             NETWORK, VERSION);
    HRESULT code = call("HcnCreateEndpoint", network_handle, &id, settings, &endpoint, &error);
    if (FAILED(code) || FAILED(code = call("HcnOpenNamespace", &id, &namespace_handle, &error, NULL, NULL)))
        return code;
    swprintf(settings, 1024, L"{\"ResourceType\": \"Endpoint\", \"RequestType\": \"Add\", \"Settings\": {\"EndpointId\": \"%ls\"}}",
             namespace);
    return call("HcnModifyNamespace", namespace_handle, settings, &error, NULL, NULL);
}

static void delete_endpoint(const wchar_t *namespace) {
    GUID id = guid(namespace);
    wchar_t *error = NULL;
    call("HcnDeleteEndpoint", &id, &error, NULL, NULL, NULL);
}

static const wchar_t *namespace_id(void) {
    static wchar_t text[64];
    const char *given = getenv("CNI_NETNS");
    swprintf(text, 64, L"%hs", given == NULL ? "" : given);
    return text;
}
#endif

int main(void) {
    const char *command = getenv("CNI_COMMAND");
    if (command == NULL)
        return 1;
    if (strcmp(command, "VERSION") == 0)
        puts("{\"cniVersion\": \"1.0.0\", \"supportedVersions\": [\"0.4.0\", \"1.0.0\"]}");
    else if (strcmp(command, "ADD") == 0) {
#ifdef WITH_ENDPOINT
        if (FAILED(add_endpoint(namespace_id())))
            return 1;
#endif
        puts("{\"cniVersion\": \"1.0.0\", \"interfaces\": [{\"name\": \"eth0\", \"sandbox\": \"\"}],"
             " \"ips\": [{\"address\": \"10.11.12.13/24\", \"interface\": 0}], \"dns\": {}}");
    }
#ifdef WITH_ENDPOINT
    else if (strcmp(command, "DEL") == 0)
        delete_endpoint(namespace_id());
#endif
    return 0;
}
