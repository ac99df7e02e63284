"""Changes to libraries for Windows that somebody else has linked.

What is changed is no longer what was signed, so signatures go. Nothing is added to an image, no code of it is changed.
"""

from __future__ import annotations

import struct

PAGE = 0x1000
NEW_HEADER, SECTION_COUNT, OPTIONAL_SIZE, OPTIONAL = 0x3C, 6, 20, 24
# In the optional header of a 64-bit image.
MAGIC_64, FILE_ALIGNMENT, HEADERS_SIZE, CHECKSUM, DIRECTORIES = 0x20B, 36, 60, 64, 112
IMPORTS, SECURITY, DEBUG = 1, 4, 6
# Sizes of entries.
SECTION, IMPORT, DEBUG_ENTRY = 40, 20, 28


class Image:
    def __init__(self, data: bytes) -> None:
        self.data = bytearray(data)
        head = self.number(NEW_HEADER)
        self.optional = head + OPTIONAL
        assert data[head : head + 4] == b"PE\0\0" and self.number(self.optional, "<H") == MAGIC_64
        table = self.optional + self.number(head + OPTIONAL_SIZE, "<H")
        self.sections = range(table, table + self.number(head + SECTION_COUNT, "<H") * SECTION, SECTION)

    def number(self, place: int, form: str = "<I") -> int:
        value: int = struct.unpack_from(form, self.data, place)[0]
        return value

    def put(self, place: int, *numbers: int) -> None:
        struct.pack_into(f"<{len(numbers)}I", self.data, place, *numbers)

    def directory(self, number: int) -> tuple[int, int]:
        """Where in the file, and how long."""
        address, size = struct.unpack_from("<II", self.data, self.optional + DIRECTORIES + number * 8)
        return (self.offset(address), size) if size else (0, 0)

    def offset(self, address: int) -> int:
        for section in self.sections:
            begin, length, place = struct.unpack_from("<III", self.data, section + 12)
            if begin <= address < begin + length:
                return int(place + address - begin)
        raise ValueError(f"nothing of the file is at {address:#x}")

    def imports(self) -> dict[str, int]:
        """The libraries, and where in the file their names are."""
        found = {}
        entry, _ = self.directory(IMPORTS)
        while entry and self.number(entry + 12):
            place = self.offset(self.number(entry + 12))
            found[self.data[place : self.data.index(b"\0", place)].decode()] = place
            entry += IMPORT
        return found


def with_import_renamed(data: bytes, name: str, other: str) -> bytes:
    """What is imported from one library comes from another, whose name is as long."""
    assert len(name) == len(other)
    image = Image(data)
    place = image.imports().get(name)
    assert place is not None, f"another image: it imports nothing from {name}"
    image.data[place : place + len(other)] = other.encode()
    return bytes(image.data)


def with_whole_pages(data: bytes) -> bytes:
    """Each section at the beginning of a page of the file: it can be mapped, and is in memory only where it is used.
    Wine reads what it cannot map, every byte of it, into memory that no other process shares."""
    image = Image(data)
    debug, debug_size = image.directory(DEBUG)
    assert image.sections.stop <= PAGE, "headers of more than a page"
    made = bytearray(data[: image.sections.stop].ljust(PAGE, b"\0"))
    moved = []  # from, to, and how far
    for section in image.sections:
        length, begin = struct.unpack_from("<II", data, section + 16)
        moved.append((begin, begin + length, len(made) - begin))
        pages = -(-length // PAGE) * PAGE
        image.put(section + 16, pages, len(made) if length else 0)
        made += data[begin : begin + length].ljust(pages, b"\0")
    made[: image.sections.stop] = image.data[: image.sections.stop]
    image.data = made
    image.put(image.optional + FILE_ALIGNMENT, PAGE)
    image.put(image.optional + HEADERS_SIZE, PAGE)
    image.put(image.optional + CHECKSUM, 0)
    image.put(image.optional + DIRECTORIES + SECURITY * 8, 0, 0)

    def new(place: int) -> int:
        return place + next((far for begin, end, far in moved if begin <= place < end), 0)

    for entry in range(new(debug), new(debug) + debug_size, DEBUG_ENTRY):  # these say where in the file they lead
        image.put(entry + 24, new(image.number(entry + 24)))
    return bytes(image.data)
