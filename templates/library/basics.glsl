// The library of GLSL functions that the kernel fragments of the op records name, file by file. A kernel includes only
// the blocks whose names occur in its text, with what they need. `NAME@double` holds the double-precision overload of
// NAME, `NAME@int64` the one for 64-bit integers.
//
// Names that end in _float or _double compute in that precision: an op names exp_{type}. They exist because Vulkan
// promises little of the built-in ones (exp: 3 + 2|x| ulp; sin: 2^-11 absolute; atan: 4096 ulp), drivers differ, and in
// double precision there are none. A `precise` function has the same bits in every kernel, because no multiply in it is
// contracted with an add.
//
// This file: classes, extremes and exponents of floats. By bits, because a driver may assume that some values do not
// occur.

// @function inf_float
precise float inf_float() { return uintBitsToFloat(0x7f800000u); }

// @function nan_float
precise float nan_float() { return uintBitsToFloat(0x7fc00000u); }

// @function is_nan
// By bits: a driver may assume that NaN does not occur and compile isnan away.
bool is_nan(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }

// @function is_nan@double
bool is_nan(double x) {
    uvec2 w = unpackDouble2x32(x);
    uint high = w.y & 0x7fffffffu;
    return high > 0x7ff00000u || (high == 0x7ff00000u && w.x != 0u);
}

// @function is_inf
bool is_inf(float x) { return (floatBitsToUint(x) & 0x7fffffffu) == 0x7f800000u; }

// @function is_inf@double
bool is_inf(double x) {
    uvec2 w = unpackDouble2x32(x);
    return (w.y & 0x7fffffffu) == 0x7ff00000u && w.x == 0u;
}

// @function is_finite
bool is_finite(float x) { return (floatBitsToUint(x) & 0x7fffffffu) < 0x7f800000u; }

// @function is_finite@double
bool is_finite(double x) { return (unpackDouble2x32(x).y & 0x7fffffffu) < 0x7ff00000u; }

// @function nan_max needs is_nan
// The larger, or NaN if either is: GLSL's max may return the other operand.
precise float nan_max(float x, float y) { return x > y || is_nan(x) ? x : y; }

// @function nan_max@double needs is_nan@double
precise double nan_max(double x, double y) { return x > y || is_nan(x) ? x : y; }

// @function nan_min needs is_nan
precise float nan_min(float x, float y) { return x < y || is_nan(x) ? x : y; }

// @function nan_min@double needs is_nan@double
precise double nan_min(double x, double y) { return x < y || is_nan(x) ? x : y; }

// @function sign_bit
bool sign_bit(float x) { return floatBitsToInt(x) < 0; }

// @function sign_bit@double
bool sign_bit(double x) { return int(unpackDouble2x32(x).y) < 0; }

// @function next_after needs is_nan nan_float
// By bits, which count the floats of one sign; a driver that flushes denormals would not see them in comparisons.
precise float next_after(float x, float y) {
    if (is_nan(x) || is_nan(y)) return nan_float();
    int from = floatBitsToInt(x), to = floatBitsToInt(y);
    from = from < 0 ? -(from & 0x7fffffff) : from;
    to = to < 0 ? -(to & 0x7fffffff) : to;
    if (from == to) return y;
    int found = from < to ? from + 1 : from - 1;
    uint sign = found < 0 || (found == 0 && from < 0) ? 0x80000000u : 0u;
    return uintBitsToFloat(uint(abs(found)) | sign);
}

// @function next_after@double needs is_nan@double
precise double next_after(double x, double y) {
    if (is_nan(x) || is_nan(y)) return x + y;
    if (x == y) return y;
    uvec2 bits = unpackDouble2x32(x);
    if (((bits.y & 0x7fffffffu) | bits.x) == 0u) return packDouble2x32(uvec2(1u, x < y ? 0u : 0x80000000u));
    if ((x < y) == (int(bits.y) >= 0)) {  // away from zero
        bits.x += 1u;
        bits.y += bits.x == 0u ? 1u : 0u;
    } else {
        bits.y -= bits.x == 0u ? 1u : 0u;
        bits.x -= 1u;
    }
    return packDouble2x32(bits);
}

// @function exponent_of
// floor(log2(x)) of a finite x > 0.
int exponent_of(float x) {
    int e = int(floatBitsToUint(x) >> 23);
    return e == 0 ? findMSB(floatBitsToUint(x)) - 149 : e - 127;
}

// @function exponent_of@double
int exponent_of(double x) {
    uvec2 w = unpackDouble2x32(x);
    int e = int(w.y >> 20);
    if (e != 0) return e - 1023;
    return w.y != 0u ? findMSB(w.y) - 1042 : findMSB(w.x) - 1074;
}

// @function scale
// x * 2^n in steps that neither overflow nor lose bits before the end.
precise float scale(float x, int n) {
    int half_ = n >> 1;
    return x * uintBitsToFloat(uint(half_ + 127) << 23) * uintBitsToFloat(uint(n - half_ + 127) << 23);
}

// @function scale@double
precise double scale(double x, int n) {
    int half_ = n >> 1;
    return x * packDouble2x32(uvec2(0u, uint(half_ + 1023) << 20)) * packDouble2x32(uvec2(0u, uint(n - half_ + 1023) << 20));
}

// @function signed_zero
// By bits: to some drivers -0.0 and 0.0 are one number in a choice.
precise float signed_zero(bool negative) { return uintBitsToFloat(negative ? 0x80000000u : 0u); }

// @function high_part_float
// x without its last 12 bits: products of two such parts are exact.
precise float high_part_float(float x) { return uintBitsToFloat(floatBitsToUint(x) & 0xfffff000u); }

// @function two_sum_float
// x + y and what its rounding lost (Knuth).
precise vec2 two_sum_float(float x, float y) {
    precise float sum = x + y;
    precise float part = sum - x;
    precise float lost = (x - (sum - part)) + (y - part);
    return vec2(sum, lost);
}

// @function two_product_float needs high_part_float
// x y and what its rounding lost (Dekker, Numerische Mathematik 18, 1971).
precise vec2 two_product_float(float x, float y) {
    precise float product = x * y;
    precise float x_high = high_part_float(x), y_high = high_part_float(y);
    precise float x_low = x - x_high, y_low = y - y_high;
    precise float lost = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low;
    return vec2(product, lost);
}
