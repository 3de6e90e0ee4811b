// Static libraries in the ar format (internal).
#pragma once

#include <functional>
#include <string>

#include "binary/window.hpp"

namespace tetrad::binary {

bool looks_like_archive(Bytes bytes);

// Calls `visit` for each member with a window that ends with it; what `visit` leaves unread is passed. System V and BSD
// names. Errors (input): TE0812 damaged, or a thin archive, which holds no code; those of the reader and of `visit`.
Status read_archive(Window& window, std::string_view where,
                    const std::function<Status(const std::string& member, Window& data, std::uint64_t size)>& visit);

}  // namespace tetrad::binary
