// Division, also rounding down, and powers of integers.

// @function divide_float
// Vulkan promises 2.5 ulp for |y| up to 2^126; beyond, a driver that multiplies by the reciprocal may give 0, for that is
// denormal.
precise float divide_float(float x, float y) {
    float smaller = abs(y) > 8.5e37 ? 0.25 : 1.0;
    return (x * smaller) / (y * smaller);
}

// @function divide_double
precise double divide_double(double x, double y) { return x / y; }

// @function exact_fmod needs exponent_of scale
// |x| mod |y| exactly, by long division in binary; each turn takes at least one bit off x.
precise float exact_fmod(float x, float y) {
    float r = abs(x), d = abs(y);
    while (r >= d) {
        float t = scale(d, exponent_of(r) - exponent_of(d));
        r -= t > r ? 0.5 * t : t;
    }
    return r;
}

// @function exact_fmod@double needs exponent_of@double scale@double
precise double exact_fmod(double x, double y) {
    double r = abs(x), d = abs(y);
    while (r >= d) {
        double t = scale(d, exponent_of(r) - exponent_of(d));
        r -= t > r ? 0.5LF * t : t;
    }
    return r;
}

// @function floor_remainder needs exact_fmod is_nan is_inf nan_float
// NumPy's remainder: it has the sign of the divisor. By zero: NaN for floats, 0 for integers.
precise float floor_remainder(float x, float y) {
    if (is_nan(x) || is_nan(y) || is_inf(x) || y == 0.0) return nan_float();
    float r = is_inf(y) ? abs(x) : exact_fmod(x, y);
    if (r == 0.0) return y < 0.0 ? -abs(r) : abs(r); // not literals: to some drivers 0.0 and -0.0 are one
    if (x < 0.0) r = -r;
    return (r < 0.0) != (y < 0.0) ? r + y : r;
}
int floor_remainder(int x, int y) {
    if (y == 0 || y == -1) return 0;
    int r = x - (x / y) * y;
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
uint floor_remainder(uint x, uint y) { return y == 0u ? 0u : x % y; }

// @function floor_remainder@double needs exact_fmod@double is_nan@double is_inf@double
precise double floor_remainder(double x, double y) {
    if (is_nan(x) || is_nan(y) || is_inf(x) || y == 0.0LF) return packDouble2x32(uvec2(0u, 0x7ff80000u));
    double r = is_inf(y) ? abs(x) : exact_fmod(x, y);
    if (r == 0.0LF) return y < 0.0LF ? -0.0LF : 0.0LF;
    if (x < 0.0LF) r = -r;
    return (r < 0.0LF) != (y < 0.0LF) ? r + y : r;
}

// @function floor_remainder@int64
int64_t floor_remainder(int64_t x, int64_t y) {
    if (y == 0l || y == -1l) return 0l;
    int64_t r = x - (x / y) * y;
    return r != 0l && (r < 0l) != (y < 0l) ? r + y : r;
}
uint64_t floor_remainder(uint64_t x, uint64_t y) { return y == 0ul ? 0ul : x % y; }

// @function floor_divide needs divide_float signed_zero exact_fmod is_nan is_inf nan_float
// NumPy's floor division: rounds down. By zero: x / 0 for floats, 0 for integers.
precise float floor_divide(float x, float y) {
    if (is_inf(x) && y != 0.0) return nan_float();
    if (is_nan(x) || is_nan(y) || y == 0.0) return divide_float(x, y);
    if (is_inf(y)) return x == 0.0 || (x < 0.0) == (y < 0.0) ? divide_float(x, y) : -1.0;
    float r = exact_fmod(x, y);
    if (x < 0.0) r = -r;
    float q = divide_float(x - r, y);
    if (r != 0.0 && (r < 0.0) != (y < 0.0)) q -= 1.0;
    if (q == 0.0) return signed_zero((floatBitsToInt(x) ^ floatBitsToInt(y)) < 0);
    return roundEven(q);
}
int floor_divide(int x, int y) {
    if (y == 0) return 0;
    if (y == -1) return int(0u - uint(x));
    int q = x / y;
    return (x - q * y != 0) && ((x < 0) != (y < 0)) ? q - 1 : q;
}
uint floor_divide(uint x, uint y) { return y == 0u ? 0u : x / y; }

// @function floor_divide@double needs exact_fmod@double is_nan@double is_inf@double
precise double floor_divide(double x, double y) {
    if (is_inf(x) && y != 0.0LF) return packDouble2x32(uvec2(0u, 0x7ff80000u));
    if (is_nan(x) || is_nan(y) || y == 0.0LF) return x / y;
    if (is_inf(y)) return x == 0.0LF || (x < 0.0LF) == (y < 0.0LF) ? x / y : -1.0LF;
    double r = exact_fmod(x, y);
    if (x < 0.0LF) r = -r;
    double q = (x - r) / y;
    if (r != 0.0LF && (r < 0.0LF) != (y < 0.0LF)) q -= 1.0LF;
    if (q == 0.0LF) return ((unpackDouble2x32(x).y ^ unpackDouble2x32(y).y) >> 31) != 0u ? -0.0LF : 0.0LF;
    return roundEven(q);
}

// @function floor_divide@int64
int64_t floor_divide(int64_t x, int64_t y) {
    if (y == 0l) return 0l;
    if (y == -1l) return int64_t(0ul - uint64_t(x));
    int64_t q = x / y;
    return (x - q * y != 0l) && ((x < 0l) != (y < 0l)) ? q - 1l : q;
}
uint64_t floor_divide(uint64_t x, uint64_t y) { return y == 0ul ? 0ul : x / y; }

// @function pow_int
// By squaring. A negative power of 1 or -1 is 1 or -1; of anything else it is 0, as 1 / x^-y without its fraction.
uint pow_int(uint x, uint y) {
    uint product = 1u;
    for (; y != 0u; y >>= 1) {
        if ((y & 1u) != 0u) product *= x;
        x *= x;
    }
    return product;
}
int pow_int(int x, int y) {
    if (y >= 0) return int(pow_int(uint(x), uint(y)));
    return x == 1 ? 1 : x == -1 ? ((y & 1) != 0 ? -1 : 1) : 0;
}

// @function pow_int@int64
uint64_t pow_int(uint64_t x, uint64_t y) {
    uint64_t product = 1ul;
    for (; y != 0ul; y >>= 1) {
        if ((y & 1ul) != 0ul) product *= x;
        x *= x;
    }
    return product;
}
int64_t pow_int(int64_t x, int64_t y) {
    if (y >= 0l) return int64_t(pow_int(uint64_t(x), uint64_t(y)));
    return x == 1l ? 1l : x == -1l ? ((y & 1l) != 0l ? -1l : 1l) : 0l;
}
