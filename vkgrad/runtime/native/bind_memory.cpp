// Buffer, as Python sees it.
#include "bindings.hpp"
#include "host_copy.hpp"

namespace vkgrad {
static char* host_address(const Buffer& buffer) {
    if (!buffer.mapped())
        throw py::buffer_error(
            "this buffer is of kind \"device\", which the host cannot see: copy through an upload or download buffer");
    buffer.device().base.require_usable();
    return buffer.mapped();
}

static void write(Buffer& buffer, const py::object& data, uint64_t offset, unsigned threads) {
    const Bytes bytes(data);
    char* const start = host_address(buffer);
    buffer.require_inside(offset, bytes.size(), "write");
    without_gil(bytes.size(), [&] {
        copy_bytes(start + offset, static_cast<const char*>(bytes.data()), bytes.size(), threads);
    });
}

static py::bytes read(Buffer& buffer, uint64_t offset, std::optional<uint64_t> nbytes) {
    const char* const start = host_address(buffer);
    buffer.require_inside(offset, nbytes.value_or(0), "read");
    const uint64_t length = nbytes.value_or(buffer.nbytes() - offset);
    py::bytes bytes(nullptr, length);
    char* target = PyBytes_AS_STRING(bytes.ptr());
    without_gil(length, [&] { copy_bytes(target, start + offset, length); });
    return bytes;
}

void bind_memory(py::module_& module) {
    py::class_<Buffer, std::shared_ptr<Buffer>>(module, "Buffer", py::buffer_protocol())
        .def_property_readonly("nbytes", &Buffer::nbytes)
        .def_property_readonly("kind", [](const Buffer& buffer) { return name_of(buffer.kind()); })
        .def_property_readonly("busy", &Buffer::is_read_by_copies)
        .def_property_readonly("host_visible", [](const Buffer& buffer) { return buffer.mapped() != nullptr; })
        .def("write", &write, py::arg("data"), py::arg("offset") = 0, py::arg("threads") = 0)
        .def("read", &read, py::arg("offset") = 0, py::arg("nbytes") = py::none())
        .def_buffer(
            [](Buffer& buffer) { return py::buffer_info(host_address(buffer), 1, "B", py::ssize_t(buffer.nbytes())); })
        .def("__repr__", [](const Buffer& buffer) {
            return "<Buffer " + std::string(name_of(buffer.kind())) + ", " + std::to_string(buffer.nbytes()) +
                   " bytes>";
        });
}
} // namespace vkgrad
