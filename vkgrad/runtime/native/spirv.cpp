#include "spirv.hpp"
#include "error.hpp"
#include <algorithm>
#include <cstring>
#include <string>

namespace vkgrad {
namespace {
enum Instruction {
    memory_model = 14,
    entry_point = 15,
    execution_mode = 16,
    capability = 17,
    function = 54,
    function_end = 56,
    decorate = 71
};
constexpr uint32_t magic = 0x07230203, swapped_magic = 0x03022307;
constexpr uint32_t gl_compute = 5, local_size_mode = 17, binding_decoration = 33, set_decoration = 34;

[[noreturn]] void refuse(const std::string& reason) {
    throw Error(Fault::shader, "bad SPIR-V: " + reason + "; compile the shader anew");
}

bool is_main(const uint32_t* literal, size_t words) {
    const char* name = reinterpret_cast<const char*>(literal);
    return std::memchr(name, 0, words * 4) && !std::strcmp(name, "main");
}
} // namespace

SpirvInfo inspect_spirv(const void* code, size_t nbytes) {
    if (nbytes < 20) refuse(std::to_string(nbytes) + " bytes are less than a header");
    std::vector<uint32_t> words(nbytes / 4);
    std::memcpy(words.data(), code, words.size() * 4);
    if (words[0] == swapped_magic) refuse("its byte order is swapped");
    if (words[0] != magic) refuse("the magic number is wrong (is this GLSL text?)");
    if (nbytes % 4) refuse(std::to_string(nbytes) + " bytes are no whole number of words");
    SpirvInfo info;
    info.version = words[1];
    if (info.version >> 16 != 1 || (info.version >> 8 & 255) > 6) refuse("unknown version");
    if (words[3] < 2 || words[3] > (1u << 22)) refuse("impossible id bound " + std::to_string(words[3]));

    size_t models = 0, entries = 0, functions = 0, ends = 0;
    for (size_t at = 5, length = 0; at < words.size(); at += length) {
        length = words[at] >> 16;
        const uint32_t opcode = words[at] & 0xffff, *operands = &words[at] + 1;
        if (!length || length > words.size() - at) refuse("truncated or damaged at word " + std::to_string(at));
        auto need = [&](size_t count) {
            if (length <= count) refuse("an instruction is too short at word " + std::to_string(at));
        };
        switch (opcode) {
            case capability:
                need(1);
                info.capabilities.push_back(operands[0]);
                break;
            case memory_model: models++; break;
            case entry_point:
                need(3);
                if (operands[0] == gl_compute && is_main(operands + 2, length - 3)) entries++;
                break;
            case execution_mode:
                need(2);
                if (operands[1] == local_size_mode) {
                    need(4);
                    info.local_size = {operands[2], operands[3], operands[4]};
                }
                break;
            case decorate:
                need(2);
                if (operands[1] == set_decoration || operands[1] == binding_decoration) need(3);
                if (operands[1] == set_decoration && operands[2] != 0)
                    refuse("it uses descriptor set " + std::to_string(operands[2]) + ", but only set 0 is bound");
                if (operands[1] == binding_decoration) info.bindings = std::max(info.bindings, operands[2] + 1);
                break;
            case function: functions++; break;
            case function_end: ends++; break;
            default: break;
        }
    }
    if (models != 1) refuse("it has no memory model");
    if (entries != 1) refuse("it has no GLCompute entry point named main");
    if (!functions || functions != ends) refuse("its functions are not closed");
    return info;
}
} // namespace vkgrad
