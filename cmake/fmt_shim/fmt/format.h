// Kompute's headers name fmt in one error text of kp::Algorithm, which is not used here. This stands in for the library,
// which Debian offers only as a shared object; the text comes out unfilled.
#pragma once
#include <string>

namespace fmt {
template <class... Values> std::string format(const char* pattern, const Values&...) { return pattern; }
} // namespace fmt
