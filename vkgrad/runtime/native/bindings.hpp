// The Python side. Everything that can block or takes long releases the GIL; no C++ object holds a Python object.
#pragma once
#include "device.hpp"
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

namespace vkgrad {
namespace py = pybind11;

void bind_errors(); // Fault -> the class of vkgrad.errors
void bind_memory(py::module_& module);
void bind_plan(py::module_& module);
void bind_replay(py::module_& module);
void bind_device(py::module_& module);
void bind_nest(py::module_& module);

py::dict describe(const Adapter& adapter);

// Waits for a ticket of the main timeline, looking for signals in between; false after `timeout_s`.
bool wait(Device& device, uint64_t ticket, std::optional<double> timeout_s);

// Does something with so many bytes, without the GIL where that is much. For less it is kept: a thread that computes may
// take it meanwhile, and then has it for 5 ms.
template <class Work> void without_gil(uint64_t bytes, Work work) {
    if (bytes <= 1 << 18) return work();
    py::gil_scoped_release nogil;
    work();
}

// The bytes of any object with the buffer protocol. Raises what that object raises when they are not contiguous.
class Bytes {
  public:
    explicit Bytes(const py::handle& object) {
        if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE)) throw py::error_already_set();
    }
    ~Bytes() { PyBuffer_Release(&view_); }
    Bytes(const Bytes&) = delete;
    const void* data() const { return view_.buf; }
    size_t size() const { return size_t(view_.len); }
    std::string copy() const { return {static_cast<const char*>(view_.buf), size()}; }

  private:
    Py_buffer view_;
};

// What Python holds as Device. Submissions in flight keep their plans, and plans the device: the drain cuts the circle.
struct OpenDevice {
    std::shared_ptr<Device> device;
    ~OpenDevice() { device->drain(); }
};
} // namespace vkgrad
