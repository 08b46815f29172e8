// The module: its functions and its exceptions.
#include "bindings.hpp"
#include "loader.hpp"

namespace vkgrad {
void bind_errors() {
    static PyObject* classes[8]; // by Fault; held for the life of the process
    const char* const names[8] = {"VulkanError",     "NoDriverError", "NoDeviceError",     "OutOfDeviceMemoryError",
                                  "DeviceLostError", "ShaderError",   "DeviceClosedError", "ForkedError"};
    auto errors = py::module_::import("vkgrad.errors");
    for (int fault = 0; fault < 8; fault++) classes[fault] = py::object(errors.attr(names[fault])).release().ptr();
    py::register_exception_translator([](std::exception_ptr thrown) {
        try {
            if (thrown) std::rethrow_exception(thrown);
        } catch (const Error& error) {
            PyErr_SetString(classes[int(error.fault)], error.what());
        } catch (const vk::SystemError& error) { // from Kompute's own calls
            PyErr_SetString(classes[int(fault_of(VkResult(error.code().value())))], error.what());
        }
    });
}
} // namespace vkgrad

PYBIND11_MODULE(_native, module) {
    using namespace vkgrad;
    module.doc() = "Vulkan through Kompute: devices, buffers, pipelines, plans and their submission. Knows no tensor.";
    bind_errors();
    bind_memory(module);
    bind_plan(module);
    bind_replay(module);
    bind_device(module);
    bind_nest(module);

    module.def("list_devices", [] {
        py::list devices;
        for (auto& adapter : adapters()) devices.append(describe(adapter));
        return devices;
    });
    module.def("forks", &forks);
    module.def(
        "inspect_spirv",
        [](const py::object& code) {
            const Bytes bytes(code);
            const SpirvInfo info = inspect_spirv(bytes.data(), bytes.size());
            py::dict out;
            out["version"] = std::to_string(info.version >> 16) + "." + std::to_string(info.version >> 8 & 255);
            out["bindings"] = info.bindings;
            out["capabilities"] = info.capabilities;
            out["local_size"] = py::make_tuple(info.local_size[0], info.local_size[1], info.local_size[2]);
            return out;
        },
        py::arg("spirv"));
    py::cpp_function close_all(&close_all_devices, py::call_guard<py::gil_scoped_release>());
    py::module_::import("atexit").attr("register")(close_all);
}
