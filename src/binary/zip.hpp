// Wheels and other zip files, read with libzip (internal). Nothing is ever written.
#pragma once

#include <functional>
#include <string>

#include "binary/window.hpp"

namespace tetrad::binary {

bool looks_like_zip(Bytes bytes);

// Calls `visit` for each file in the zip, by name; a file that `visit` does not read costs nothing. Checked before:
// no name leads out of the zip, the files fit into it without overlap, and together unpack to at most 64 GB or 200
// times the zip. A file whose checksum fails is an error of the reader that its window uses.
// Errors (input): TE0810, TE0813 damaged, encrypted, or packed in an unknown way, TE0814, TE0815; those of `visit`.
Status read_zip(const std::string& path,
                const std::function<Status(const std::string& name, Window& data, std::uint64_t size)>& visit);

}  // namespace tetrad::binary
