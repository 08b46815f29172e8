// Replay, as Python sees it: the one call of a step in its steady state.
#include "bindings.hpp"
#include "replay.hpp"
#include <chrono>
#include <pybind11/numpy.h>
#include <tuple>

namespace vkgrad {
// False for what is no NumPy array of exactly that class: a subclass may mean something else by its bytes.
static bool as_host_array(PyObject* object, HostArray& out) {
    if (Py_TYPE(object) != py::detail::npy_api::get().PyArray_Type_) return false;
    const auto array = py::reinterpret_borrow<py::array>(object);
    const py::dtype type = array.dtype();
    out.data = static_cast<const char*>(array.data());
    out.type = type.num();
    out.read_only = !array.writeable();
    out.contiguous = array.flags() & py::array::c_style && (type.byteorder() == '=' || type.byteorder() == '|');
    out.rank = size_t(array.ndim());
    out.extents = array.shape();
    return true;
}

// For `run` nobody looks at the clock; for `timed_run` it says when the arguments were there.
struct NoClock {
    void uploads() {}
    void uploaded() {}
    void submitted() {}
};

struct Clock {
    using Time = std::chrono::steady_clock::time_point;
    Time start, between, end;
    void uploads() { start = std::chrono::steady_clock::now(); }
    void uploaded() { between = std::chrono::steady_clock::now(); }
    void submitted() { end = std::chrono::steady_clock::now(); }
    static double us(Time from, Time to) { return std::chrono::duration<double, std::micro>(to - from).count(); }
};

// The ticket, or 0 when the arguments are others than those it was made for: then nothing was done.
template <class Watch>
static uint64_t run_watched(Replay& replay, const std::shared_ptr<Plan>& before, const py::args& given, Watch& watch) {
    std::vector<HostArray> arrays(given.size());
    for (size_t i = 0; i < given.size(); i++)
        if (!as_host_array(PyTuple_GET_ITEM(given.ptr(), py::ssize_t(i)), arrays[i])) return 0;
    if (!replay.takes(arrays)) return 0;
    if (const uint64_t previous = replay.previous()) wait(replay.device(), previous, std::nullopt);
    watch.uploads();
    without_gil(replay.bytes_to_write(arrays), [&] { replay.upload(arrays); });
    watch.uploaded();
    for (;;) { // a submission takes a few us: it keeps the GIL too
        const auto outcome = replay.try_submit(before);
        if (outcome.ticket) {
            watch.submitted();
            return outcome.ticket;
        }
        wait(replay.device(), outcome.wait_for, std::nullopt);
    }
}

static uint64_t run(Replay& replay, const std::shared_ptr<Plan>& before, const py::args& given) {
    NoClock none;
    return run_watched(replay, before, given, none);
}

static std::tuple<uint64_t, double, double> timed_run(
    Replay& replay, const std::shared_ptr<Plan>& before, const py::args& given) {
    Clock clock;
    const uint64_t ticket = run_watched(replay, before, given, clock);
    if (!ticket) return {0, 0.0, 0.0};
    return {ticket, Clock::us(clock.start, clock.between), Clock::us(clock.between, clock.end)};
}

void bind_replay(py::module_& module) {
    py::class_<Replay, std::shared_ptr<Replay>>(module, "Replay")
        .def("run", &run, py::arg("before"))
        .def("timed_run", &timed_run, py::arg("before"));
}
} // namespace vkgrad
