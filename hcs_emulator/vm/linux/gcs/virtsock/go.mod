module github.com/linuxkit/virtsock

go 1.21
