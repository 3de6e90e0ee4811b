// A header that needs another one before it: the header test must refuse it.
std::string needs_string();
