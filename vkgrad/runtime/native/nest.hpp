// Loop nests over arrays in the host's memory, a block of places at a time, so that nothing between loads and stores leaves
// the cache. Knows no op but by the name of its loop, and no shape but extents and strides.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vkgrad {
// Every value is a word: a float, an integer, or a truth value as no bits or all.
using Loop = void (*)(void* out, const void* x, const void* y, const void* z, size_t count, unsigned single);

// The loop of an element-wise operation, such as "add:f" (f float, i integer, b truth value); null if there is none.
// Bit i of `single` says that operand i is one word for all places.
Loop find_loop(const std::string& name);

struct NamedLoop {
    const char* name;
    Loop loop;
};

// Elements that count only where 0 <= constants[term] + coefficients * coordinates < bound.
struct Limit {
    std::vector<int64_t> coefficients, constants;
    int64_t bound;
};

// Elements of an array: at offsets[term] + strides * coordinates. `offsets` is one for all terms, or one for each.
struct Access {
    int slot = 0;
    bool boolean = false; // a byte in memory
    std::vector<int64_t> strides, offsets;
    std::vector<Limit> limits;
    uint32_t fill = 0; // where a limit is not kept
};

struct Instruction {
    enum Kind { load, count, constant, compute, reduce } kind;
    Access access;               // load; count: the address itself, as an integer
    std::vector<uint32_t> words; // constant: one for all terms, or one for each
    Loop loop = nullptr;         // compute; reduce: of what has been joined and the next term
    std::vector<int> operands;   // compute, reduce: earlier instructions
    bool from_zero = false;      // reduce: starts with zero instead of the first term
};

struct Store {
    Access access;
    int value;
};

class Nest {
  public:
    // Over the places of `extents`, with so many terms at each.
    Nest(std::vector<int64_t> extents, int64_t terms, std::vector<Instruction> code, std::vector<Store> stores);

    int64_t blocks() const { return blocks_; }
    void run(void* const* slots, int64_t block) const; // blocks may run in any order and side by side

  private:
    struct Block {
        int64_t row, rows, start, length; // rows of the innermost axis, and what of each
        size_t places() const { return size_t(rows * length); }
    };
    struct Value { // an instruction's result in a block
        bool varies = false; // from place to place
        int64_t terms = 1, register_ = -1;
    };
    bool is_dense(const Access& access) const;
    int64_t address(const Access& access, const Block& block, size_t term) const;
    template <class Visit> void each_row(const Access& access, const Block& block, size_t term, Visit visit) const;
    template <class Word> void read(const Access&, const Block&, size_t term, const void* from, uint32_t* out) const;
    template <class Word> void write(const Access&, const Block&, void* to, const uint32_t* value, bool varies) const;

    std::vector<int64_t> extents_;
    int64_t terms_, row_count_, rows_in_block_, length_, blocks_;
    std::vector<Instruction> code_;
    std::vector<Store> stores_;
    std::vector<Value> values_;
    std::vector<bool> in_place_; // loads that are read where they are
    bool placed_ = false;        // the last instruction computes where it is stored
    int64_t registers_ = 0;      // of one word for each place of a block
};
} // namespace vkgrad
