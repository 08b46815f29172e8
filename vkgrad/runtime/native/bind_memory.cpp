// Buffer, as Python sees it.
#include "bindings.hpp"
#include <algorithm>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

namespace vkgrad {
static char* host_address(const Buffer& buffer) {
    if (!buffer.mapped())
        throw py::buffer_error(
            "this buffer is of kind \"device\", which the host cannot see: copy through an upload or download buffer");
    buffer.device().base.require_usable();
    return buffer.mapped();
}

// One thread moves 6 to 16 GB/s into mapped device memory, a few together what the bus carries. Starting one takes
// some 30 us, so small pieces are not worth it.
static void copy_bytes(char* target, const char* source, size_t count) {
    constexpr size_t worth = 1 << 20, most = 4, page = 4096;
    const size_t threads = std::min({count / worth, most, size_t(std::thread::hardware_concurrency())});
    if (threads < 2) {
        std::memcpy(target, source, count);
        return;
    }
    const size_t part = (count / threads + page - 1) / page * page;
    std::vector<std::thread> helpers;
    for (size_t start = part; start < count; start += part) {
        const auto copy = [=] { std::memcpy(target + start, source + start, std::min(part, count - start)); };
        try {
            helpers.emplace_back(copy);
        } catch (const std::system_error&) { // no more threads to be had
            copy();
        }
    }
    std::memcpy(target, source, part);
    for (std::thread& helper : helpers) helper.join();
}

static void write(Buffer& buffer, const py::object& data, uint64_t offset) {
    const Bytes bytes(data);
    char* const start = host_address(buffer);
    buffer.require_inside(offset, bytes.size(), "write");
    py::gil_scoped_release nogil;
    copy_bytes(start + offset, static_cast<const char*>(bytes.data()), bytes.size());
}

static py::bytes read(Buffer& buffer, uint64_t offset, std::optional<uint64_t> nbytes) {
    const char* const start = host_address(buffer);
    buffer.require_inside(offset, nbytes.value_or(0), "read");
    const uint64_t length = nbytes.value_or(buffer.nbytes() - offset);
    py::bytes bytes(nullptr, length);
    char* target = PyBytes_AS_STRING(bytes.ptr());
    py::gil_scoped_release nogil;
    copy_bytes(target, start + offset, length);
    return bytes;
}

void bind_memory(py::module_& module) {
    py::class_<Buffer, std::shared_ptr<Buffer>>(module, "Buffer", py::buffer_protocol())
        .def_property_readonly("nbytes", &Buffer::nbytes)
        .def_property_readonly("kind", [](const Buffer& buffer) { return name_of(buffer.kind()); })
        .def_property_readonly("host_visible", [](const Buffer& buffer) { return buffer.mapped() != nullptr; })
        .def("write", &write, py::arg("data"), py::arg("offset") = 0)
        .def("read", &read, py::arg("offset") = 0, py::arg("nbytes") = py::none())
        .def_buffer(
            [](Buffer& buffer) { return py::buffer_info(host_address(buffer), 1, "B", py::ssize_t(buffer.nbytes())); })
        .def("__repr__", [](const Buffer& buffer) {
            return "<Buffer " + std::string(name_of(buffer.kind())) + ", " + std::to_string(buffer.nbytes()) +
                   " bytes>";
        });
}
} // namespace vkgrad
