/* A stub of a CNI plugin for tests of CRI: reports an address of the pod, and creates no network, because the emulated
   HNS has none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    const char *command = getenv("CNI_COMMAND");
    if (command == NULL)
        return 1;
    if (strcmp(command, "VERSION") == 0)
        puts("{\"cniVersion\": \"1.0.0\", \"supportedVersions\": [\"0.4.0\", \"1.0.0\"]}");
    else if (strcmp(command, "ADD") == 0)
        puts("{\"cniVersion\": \"1.0.0\", \"interfaces\": [{\"name\": \"eth0\", \"sandbox\": \"\"}],"
             " \"ips\": [{\"address\": \"10.11.12.13/24\", \"interface\": 0}], \"dns\": {}}");
    return 0;
}
