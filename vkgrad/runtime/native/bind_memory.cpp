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

static void gather(const py::object& target, const py::object& source, const py::object& rows) {
    const Bytes from(source), numbers(rows);
    Py_buffer view;
    if (PyObject_GetBuffer(target.ptr(), &view, PyBUF_WRITABLE)) throw py::error_already_set();
    struct Release { // also when something throws
        Py_buffer& view;
        ~Release() { PyBuffer_Release(&view); }
    } release{view};
    const size_t count = numbers.size() / sizeof(int64_t), row_bytes = count ? size_t(view.len) / count : 0;
    if (!row_bytes) return;
    if (row_bytes * count != size_t(view.len)) throw std::invalid_argument("gather: the target holds no whole rows");
    const auto* chosen = static_cast<const int64_t*>(numbers.data());
    const size_t there = from.size() / row_bytes;
    for (size_t i = 0; i < count; i++)
        if (chosen[i] < 0 || size_t(chosen[i]) >= there)
            throw std::out_of_range("gather: row " + std::to_string(chosen[i]) + " of " + std::to_string(there));
    without_gil(row_bytes * count, [&] {
        gather_rows(static_cast<char*>(view.buf), static_cast<const char*>(from.data()), row_bytes, chosen, count);
    });
}

void bind_memory(py::module_& module) {
    module.def("gather", &gather, py::arg("target"), py::arg("source"), py::arg("rows"));
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
