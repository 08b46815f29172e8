#include "nest.hpp"
#include <algorithm>
#include <cstring>
#include <map>
#include <stdexcept>

namespace vkgrad {
namespace {
constexpr int64_t most_words = 2048; // a register has: a few of them fit the first-level cache
constexpr size_t most_axes = 16, most_limits = 16;

int64_t product(const std::vector<int64_t>& extents, size_t count) {
    int64_t result = 1;
    for (size_t axis = 0; axis < count; axis++) result *= extents[axis];
    return result;
}

// The part of 0 to count for which `first + step * i` is at least 0 and less than `bound`.
void narrow(int64_t first, int64_t step, int64_t bound, int64_t& from, int64_t& to) {
    const auto up = [](int64_t a, int64_t b) { return b == 1 ? a : a <= 0 ? -(-a / b) : (a + b - 1) / b; }; // a / b, b > 0
    if (step == 1) { // a division costs as much as a short row
        from = std::max(from, -first), to = std::min(to, bound - first);
    } else if (step == 0) {
        if (first < 0 || first >= bound) to = from;
    } else if (step > 0) {
        from = std::max(from, up(-first, step)), to = std::min(to, up(bound - first, step));
    } else {
        from = std::max(from, up(first - bound + 1, -step)), to = std::min(to, up(first + 1, -step));
    }
    to = std::max(from, to);
}

uint32_t as_word(uint32_t word) { return word; }
uint32_t as_word(uint8_t truth) { return -uint32_t(truth != 0); }
void put(uint32_t& to, uint32_t word) { to = word; }
void put(uint8_t& to, uint32_t word) { to = word != 0; }
} // namespace

Nest::Nest(std::vector<int64_t> extents, int64_t terms, std::vector<Instruction> code, std::vector<Store> stores)
    : extents_(std::move(extents)), terms_(terms), code_(std::move(code)), stores_(std::move(stores)) {
    if (extents_.empty() || extents_.size() > most_axes) throw std::invalid_argument("a nest has 1 to 16 axes");
    for (const Instruction& own : code_)
        if (own.access.limits.size() > most_limits) throw std::invalid_argument("an access has up to 16 limits");
    const int64_t places = std::max<int64_t>(most_words / terms_, 16);
    length_ = std::min(extents_.back(), places);
    row_count_ = product(extents_, extents_.size() - 1);
    rows_in_block_ = std::max<int64_t>(places / std::max<int64_t>(extents_.back(), 1), 1);
    const int64_t chunks = length_ ? (extents_.back() + length_ - 1) / length_ : 0;
    blocks_ = (row_count_ + rows_in_block_ - 1) / rows_in_block_ * chunks;

    // What each value is, and until when it is needed.
    const size_t count = code_.size();
    std::vector<size_t> last(count, 0);
    std::vector<bool> stored(count, false);
    for (size_t i = 0; i < count; i++)
        for (int operand : code_[i].operands) last[size_t(operand)] = i;
    for (const Store& store : stores_) last[size_t(store.value)] = count, stored[size_t(store.value)] = true;
    in_place_.assign(count, false);
    std::map<int64_t, std::vector<int64_t>> free;
    for (size_t i = 0; i < count; i++) {
        const Instruction& own = code_[i];
        Value value;
        switch (own.kind) {
        case Instruction::load:
        case Instruction::count:
            value.terms = int64_t(own.access.offsets.size());
            value.varies = !own.access.limits.empty();
            for (int64_t stride : own.access.strides) value.varies |= stride != 0;
            in_place_[i] = own.kind == Instruction::load && value.terms == 1 && !own.access.boolean && !stored[i] &&
                           value.varies && is_dense(own.access);
            break;
        case Instruction::constant: value.terms = int64_t(own.words.size()); break;
        case Instruction::compute:
            for (int operand : own.operands) {
                value.terms = std::max(value.terms, values_[size_t(operand)].terms);
                value.varies |= values_[size_t(operand)].varies;
            }
            break;
        case Instruction::reduce: value.varies = values_[size_t(own.operands[0])].varies; break;
        }
        if (own.kind != Instruction::constant && !in_place_[i]) {
            // An operand that ends here keeps its register until the next instruction: a loop may read it several times.
            std::vector<int64_t>& there = free[value.terms];
            if (there.empty()) {
                value.register_ = registers_;
                registers_ += value.terms;
            } else {
                value.register_ = there.back();
                there.pop_back();
            }
        }
        values_.push_back(value);
        for (size_t j = 0; j <= i; j++)
            if (last[j] == i && j != i && values_[j].register_ >= 0 &&
                std::count(own.operands.begin(), own.operands.end(), int(j)))
                free[values_[j].terms].push_back(values_[j].register_);
    }
    placed_ = count && stores_.size() == 1 && size_t(stores_[0].value) == count - 1 && values_.back().varies &&
              (code_.back().kind == Instruction::compute || code_.back().kind == Instruction::load) &&
              values_.back().terms == 1 && !stores_[0].access.boolean &&
              is_dense(stores_[0].access);
}

// Whether the elements lie one behind the other in the order in which places are walked.
bool Nest::is_dense(const Access& access) const {
    int64_t stride = 1;
    for (size_t axis = extents_.size(); axis-- > 0; stride *= extents_[axis])
        if (extents_[axis] > 1 && access.strides[axis] != stride) return false;
    return access.limits.empty();
}

template <class Visit> void Nest::each_row(const Access& access, const Block& block, size_t term, Visit visit) const {
    const size_t outer = extents_.size() - 1;
    int64_t coordinates[most_axes], address = access.offsets[term] + access.strides[outer] * block.start;
    for (size_t axis = outer, rest = size_t(block.row); axis-- > 0; rest /= size_t(extents_[axis])) {
        coordinates[axis] = int64_t(rest % size_t(extents_[axis]));
        address += access.strides[axis] * coordinates[axis];
    }
    const int64_t step = outer ? access.strides[outer - 1] : 0, length = block.length;
    for (int64_t row = 0; row < block.rows;) {
        // Neighbouring rows along the next axis.
        const int64_t run = outer ? std::min(block.rows - row, extents_[outer - 1] - coordinates[outer - 1]) : 1;
        if (access.limits.empty())
            for (int64_t i = 0; i < run; i++) visit(row + i, address + i * step, int64_t(0), length);
        else {
            int64_t firsts[most_limits], steps[most_limits]; // of each limit in the first row, and from row to row
            const size_t count = access.limits.size();
            for (size_t i = 0; i < count; i++) {
                const Limit& limit = access.limits[i];
                firsts[i] = limit.constants[limit.constants.size() > 1 ? term : 0] + limit.coefficients[outer] * block.start;
                for (size_t axis = 0; axis < outer; axis++) firsts[i] += limit.coefficients[axis] * coordinates[axis];
                steps[i] = outer ? limit.coefficients[outer - 1] : 0;
            }
            for (int64_t i = 0; i < run; i++) {
                int64_t from = 0, to = length;
                for (size_t j = 0; j < count; j++)
                    narrow(firsts[j] + i * steps[j], access.limits[j].coefficients[outer], access.limits[j].bound, from, to);
                visit(row + i, address + i * step, from, to);
            }
        }
        row += run;
        if (!outer) break;
        address += run * step;
        coordinates[outer - 1] += run;
        for (size_t axis = outer - 1; coordinates[axis] == extents_[axis] && axis > 0; axis--) {
            address += access.strides[axis - 1] - access.strides[axis] * extents_[axis];
            coordinates[axis] = 0, coordinates[axis - 1]++;
        }
    }
}

// Rows are short more often than not: four elements at a time, without asking first whether more would pay.
template <class Word> void take(uint32_t* to, const Word* from, int64_t step, int64_t count) {
    for (; count >= 4; count -= 4, to += 4, from += 4 * step) {
        const Word a = from[0], b = from[step], c = from[2 * step], d = from[3 * step];
        to[0] = as_word(a), to[1] = as_word(b), to[2] = as_word(c), to[3] = as_word(d);
    }
    for (; count > 0; count--, from += step) *to++ = as_word(*from);
}

template <class Word> void place(Word* to, const uint32_t* from, int64_t step, int64_t count) {
    for (; count >= 4; count -= 4, from += 4, to += 4 * step) {
        const uint32_t a = from[0], b = from[1], c = from[2], d = from[3];
        put(to[0], a), put(to[step], b), put(to[2 * step], c), put(to[3 * step], d);
    }
    for (; count > 0; count--, to += step) put(*to, *from++);
}

void copy_words(uint32_t* to, const uint32_t* from, int64_t count) {
    for (; count >= 4; count -= 4, to += 4, from += 4) std::memcpy(to, from, 16);
    for (; count > 0; count--) *to++ = *from++;
}

template <class Word>
void Nest::read(const Access& access, const Block& block, size_t term, const void* from, uint32_t* out) const {
    const auto* const source = static_cast<const Word*>(from);
    const int64_t stride = access.strides.back(), length = block.length;
    const uint32_t fill = access.fill;
    const bool words = stride == 1 && sizeof(Word) == sizeof(uint32_t);
    each_row(access, block, term, [=](int64_t number, int64_t address, int64_t first, int64_t last) {
        uint32_t* const to = out + number * length;
        const Word* const row = source + address + first * stride;
        if (first) std::fill(to, to + first, fill);
        if (words)
            copy_words(to + first, reinterpret_cast<const uint32_t*>(row), last - first);
        else
            take(to + first, row, stride, last - first);
        if (last < length) std::fill(to + last, to + length, fill);
    });
}

template <class Word>
void Nest::write(const Access& access, const Block& block, void* to, const uint32_t* value, bool varies) const {
    auto* const target = static_cast<Word*>(to);
    const int64_t stride = access.strides.back(), length = block.length;
    const bool words = stride == 1 && sizeof(Word) == sizeof(uint32_t);
    each_row(access, block, 0, [=](int64_t number, int64_t address, int64_t, int64_t) {
        Word* const row = target + address;
        if (!varies)
            for (int64_t i = 0; i < length; i++) put(row[i * stride], *value);
        else if (words)
            copy_words(reinterpret_cast<uint32_t*>(row), value + number * length, length);
        else
            place(row, value + number * length, stride, length);
    });
}

int64_t Nest::address(const Access& access, const Block& block, size_t term) const {
    int64_t found = access.offsets[term] + access.strides.back() * block.start;
    for (size_t axis = extents_.size() - 1, rest = size_t(block.row); axis-- > 0; rest /= size_t(extents_[axis]))
        found += access.strides[axis] * int64_t(rest % size_t(extents_[axis]));
    return found;
}

void Nest::run(void* const* slots, int64_t number) const {
    const int64_t chunks = (extents_.back() + length_ - 1) / length_;
    Block block;
    block.row = number / chunks * rows_in_block_;
    block.rows = std::min(rows_in_block_, row_count_ - block.row);
    block.start = number % chunks * length_;
    block.length = std::min(length_, extents_.back() - block.start);
    const size_t places = block.places(), width = size_t(rows_in_block_ * length_);

    thread_local std::vector<uint32_t> memory;
    thread_local std::vector<const uint32_t*> found;
    if (memory.size() < size_t(registers_) * width) memory.resize(size_t(registers_) * width);
    found.resize(code_.size());
    // The words of a value for one term.
    const auto term_of = [&](int index, size_t term) {
        const Value& value = values_[size_t(index)];
        const size_t step = code_[size_t(index)].kind == Instruction::constant ? 1 : width;
        return found[size_t(index)] + (value.terms > 1 ? term * step : 0);
    };
    for (size_t i = 0; i < code_.size(); i++) {
        const Instruction& own = code_[i];
        const Value& value = values_[i];
        uint32_t* out = value.register_ < 0 ? nullptr : memory.data() + size_t(value.register_) * width;
        const size_t count = value.varies ? places : 1;
        if (placed_ && i + 1 == code_.size()) {
            const Access& to = stores_[0].access;
            out = static_cast<uint32_t*>(slots[to.slot]) + address(to, block, 0);
        }
        found[i] = out;
        switch (own.kind) {
        case Instruction::load:
            if (in_place_[i]) {
                found[i] = static_cast<const uint32_t*>(slots[own.access.slot]) + address(own.access, block, 0);
                break;
            }
            for (size_t term = 0; term < size_t(value.terms); term++) {
                const void* const from = slots[own.access.slot];
                const int64_t at = own.access.offsets[term];
                if (!value.varies)
                    out[term * width] = own.access.boolean ? as_word(static_cast<const uint8_t*>(from)[at])
                                                           : static_cast<const uint32_t*>(from)[at];
                else if (own.access.boolean)
                    read<uint8_t>(own.access, block, term, from, out + term * width);
                else
                    read<uint32_t>(own.access, block, term, from, out + term * width);
            }
            break;
        case Instruction::count:
            for (size_t term = 0; term < size_t(value.terms); term++) {
                uint32_t* const to = out + term * width;
                if (!value.varies)
                    *to = uint32_t(own.access.offsets[term]);
                else
                    each_row(own.access, block, term, [&](int64_t row, int64_t first, int64_t, int64_t) {
                        for (int64_t j = 0; j < block.length; j++)
                            to[row * block.length + j] = uint32_t(first + j * own.access.strides.back());
                    });
            }
            break;
        case Instruction::constant: found[i] = own.words.data(); break;
        case Instruction::compute: {
            const int a = own.operands[0], b = own.operands.size() > 1 ? own.operands[1] : a,
                      c = own.operands.size() > 2 ? own.operands[2] : a;
            unsigned single = 0;
            for (size_t j = 0; value.varies && j < own.operands.size(); j++)
                single |= unsigned(!values_[size_t(own.operands[j])].varies) << j;
            bool one_call = count == width; // the terms lie one behind the other
            for (int operand : own.operands) one_call &= values_[size_t(operand)].terms == value.terms && !single;
            if (one_call)
                own.loop(out, term_of(a, 0), term_of(b, 0), term_of(c, 0), count * size_t(value.terms), 0);
            else
                for (size_t term = 0; term < size_t(value.terms); term++)
                    own.loop(out + term * width, term_of(a, term), term_of(b, term), term_of(c, term), count, single);
            break;
        }
        case Instruction::reduce: {
            const int a = own.operands[0];
            size_t term = 0;
            if (own.from_zero)
                std::fill(out, out + count, 0);
            else
                std::copy(term_of(a, 0), term_of(a, 0) + count, out), term = 1;
            for (; term < size_t(terms_); term++) own.loop(out, out, term_of(a, term), nullptr, count, 0);
            break;
        }
        }
    }
    if (placed_) return;
    for (const Store& store : stores_) {
        const Access& access = store.access;
        const Value& value = values_[size_t(store.value)];
        if (access.boolean)
            write<uint8_t>(access, block, slots[access.slot], found[size_t(store.value)], value.varies);
        else
            write<uint32_t>(access, block, slots[access.slot], found[size_t(store.value)], value.varies);
    }
}
} // namespace vkgrad
