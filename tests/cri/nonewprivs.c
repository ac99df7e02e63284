/* A setuid program for critest: prints its effective user id, which noNewPrivileges keeps from becoming root's. */
#include <stdio.h>
#include <unistd.h>

int main(void) { return printf("Effective uid: %d\n", (int)geteuid()) < 0; }
