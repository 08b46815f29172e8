// GLSL functions that the kernel fragments of the op records name. A kernel includes only the blocks whose names occur
// in its text, with what they need. `NAME@double` holds the double-precision overload of NAME.
//
// Names that end in _f32 are single precision only. They exist because Vulkan promises little of the built-in ones
// (exp: 3 + 2|x| ulp; sin: 2^-11 absolute; atan: 4096 ulp) and drivers differ. Polynomials are minimax fits made for
// this file; each comment says of what, where, and the error before rounding to single precision. A `precise` function
// has the same bits in every kernel, because no multiply in it is contracted with an add.

// @function inf_f32
precise float inf_f32() { return uintBitsToFloat(0x7f800000u); }

// @function nan_f32
precise float nan_f32() { return uintBitsToFloat(0x7fc00000u); }

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

// @function cast_bool
bool cast_bool(float x) { return x != 0.0; }

// @function cast_bool@double
bool cast_bool(double x) { return x != 0.0LF; }

// @function cast_int needs is_nan
// GLSL leaves the conversion undefined outside the integer's range; here it stops at the end of the range.
int cast_int(float x) {
    if (is_nan(x)) return 0;
    if (x >= 2147483648.0) return 2147483647;
    return x < -2147483648.0 ? int(0x80000000u) : int(x);
}

// @function cast_int@double needs is_nan@double
int cast_int(double x) {
    if (is_nan(x)) return 0;
    if (x >= 2147483647.0LF) return 2147483647;
    return x <= -2147483648.0LF ? int(0x80000000u) : int(x);
}

// @function cast_uint needs is_nan
uint cast_uint(float x) {
    if (is_nan(x) || x <= 0.0) return 0u;
    return x >= 4294967296.0 ? 0xffffffffu : uint(x);
}

// @function cast_uint@double needs is_nan@double
uint cast_uint(double x) {
    if (is_nan(x) || x <= 0.0LF) return 0u;
    return x >= 4294967295.0LF ? 0xffffffffu : uint(x);
}

// @function cast_float
precise float cast_float(float x) { return x; }

// @function cast_float@double
precise float cast_float(double x) { return float(x); }

// @function cast_double
// (empty: a float becomes a double only where doubles exist)

// @function cast_double@double
precise double cast_double(float x) { return double(x); }
precise double cast_double(double x) { return x; }

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

// @function signed_zero
// By bits: to some drivers -0.0 and 0.0 are one number in a choice.
precise float signed_zero(bool negative) { return uintBitsToFloat(negative ? 0x80000000u : 0u); }

// @function floor_remainder needs exact_fmod is_nan is_inf nan_f32
// NumPy's remainder: it has the sign of the divisor. By zero: NaN for floats, 0 for integers.
precise float floor_remainder(float x, float y) {
    if (is_nan(x) || is_nan(y) || is_inf(x) || y == 0.0) return nan_f32();
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

// @function floor_divide needs signed_zero exact_fmod is_nan is_inf nan_f32
// NumPy's floor division: rounds down. By zero: x / 0 for floats, 0 for integers.
precise float floor_divide(float x, float y) {
    if (is_inf(x) && y != 0.0) return nan_f32();
    if (is_nan(x) || is_nan(y) || y == 0.0) return x / y;
    if (is_inf(y)) return x == 0.0 || (x < 0.0) == (y < 0.0) ? x / y : -1.0;
    float r = exact_fmod(x, y);
    if (x < 0.0) r = -r;
    float q = (x - r) / y;
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

// @function exp_tail
// (e^r - 1 - r) / r^2 for |r| <= ln(2) / 2; error 3e-10
precise float exp_tail(float r) {
    return 0.5 + r * (0.1666666682 + r * (0.0416663419 + r * (0.008333271805 + r * (0.001394205515 + r * 0.0001991494164))));
}

// @function exp_f32 needs exp_tail scale is_nan
// 2^n e^r with r = x - n ln 2; ln 2 in two parts, the first short enough for an exact product (Cody & Waite 1980).
precise float exp_f32(float x) {
    if (is_nan(x)) return x;
    x = clamp(x, -104.0, 89.0);
    float n = roundEven(x * 1.44269504);
    float r = (x - n * 0.693359375) + n * 2.12194440e-4;
    return scale(1.0 + (r + r * r * exp_tail(r)), int(n));
}

// @function expm1_f32 needs exp_f32 exp_tail scale is_nan
precise float expm1_f32(float x) {
    if (is_nan(x) || x > 20.0) return exp_f32(x);
    x = max(x, -20.0);
    float n = roundEven(x * 1.44269504);
    if (n == 0.0) return x == 0.0 ? x : x + x * x * exp_tail(x);
    float r = (x - n * 0.693359375) + n * 2.12194440e-4;
    float power = scale(1.0, int(n));
    return power * (r + r * r * exp_tail(r)) + (power - 1.0);
}

// @function exp2_f32 needs exp_tail scale is_nan
precise float exp2_f32(float x) {
    if (is_nan(x)) return x;
    x = clamp(x, -150.0, 129.0);
    float n = roundEven(x);
    float r = (x - n) * 0.693147181;
    return scale(1.0 + (r + r * r * exp_tail(r)), int(n));
}

// @function log_tail
// (log(1 + f) - 2s) / s^3 with s = f / (2 + f), z = s^2, for sqrt(1/2) <= 1 + f <= sqrt(2); error 1e-11
precise float log_tail(float z) {
    return 0.6666666556 + z * (0.4000035611 + z * (0.285358954 + z * 0.2361038529));
}

// @function log_near_one needs log_tail
// log(1 + f) for sqrt(1/2) <= 1 + f <= sqrt(2), written so that the leading term f is exact.
precise float log_near_one(float f) {
    float s = f / (2.0 + f);
    float z = s * s;
    float square = 0.5 * f * f;
    return f - (square - s * (square + z * log_tail(z)));
}

// @function split_mantissa
// A positive finite x as m * 2^n with sqrt(1/2) <= m < sqrt(2).
precise float split_mantissa(float x, out float n) {
    n = 0.0;
    if (x < 1.17549435e-38) { x *= 8388608.0; n = -23.0; }
    uint bits = floatBitsToUint(x);
    int e = int(bits - 0x3f3504f3u) >> 23;
    n += float(e);
    return uintBitsToFloat(bits - (uint(e) << 23));
}

// @function log_special needs inf_f32 nan_f32 is_nan
// What every logarithm gives where x is not positive and finite.
precise float log_special(float x) {
    if (is_nan(x) || x > 0.0) return x;
    return x == 0.0 ? -inf_f32() : nan_f32();
}

// @function positive_finite
bool positive_finite(float x) { return floatBitsToUint(x) - 1u < 0x7f7fffffu; }

// @function log_f32 needs log_near_one split_mantissa log_special positive_finite
precise float log_f32(float x) {
    if (!positive_finite(x)) return log_special(x);
    float n;
    float f = split_mantissa(x, n) - 1.0;
    return n * 0.693359375 + (log_near_one(f) - n * 2.12194440e-4);
}

// @function log2_f32 needs log_near_one split_mantissa log_special positive_finite
precise float log2_f32(float x) {
    if (!positive_finite(x)) return log_special(x);
    float n;
    float f = split_mantissa(x, n) - 1.0;
    return n + log_near_one(f) * 1.44269504;
}

// @function log10_f32 needs log_near_one split_mantissa log_special positive_finite
precise float log10_f32(float x) {
    if (!positive_finite(x)) return log_special(x);
    float n;
    float f = split_mantissa(x, n) - 1.0;
    return n * 0.301025391 + (log_near_one(f) * 0.434294482 + n * 4.60503907e-6);
}

// @function log1p_f32 needs log_f32 log_near_one is_nan
// Near 0 directly; elsewhere log(u) with u = 1 + x rounded, and what the rounding lost (Goldberg 1991, theorem 4).
precise float log1p_f32(float x) {
    if (x > -0.29 && x < 0.41) return log_near_one(x);
    float u = 1.0 + x;
    if (is_nan(x) || x > 1e8 || u <= 0.0) return log_f32(u);
    return log_f32(u) + (x > 1.0 ? 1.0 - (u - x) : x - (u - 1.0)) / u;
}

// @function high_part
// x without its last 12 bits: products of two such parts are exact.
precise float high_part(float x) { return uintBitsToFloat(floatBitsToUint(x) & 0xfffff000u); }

// @function pow_positive needs exp2_f32 split_mantissa log_tail high_part exp_tail scale
// x^y for finite x > 0 as 2^(y log2 x), with log2 x and the product in two parts (Dekker 1971), for one part's relative
// error would be magnified by up to 128.
precise float pow_positive(float x, float y) {
    float n;
    float f = split_mantissa(x, n) - 1.0;
    precise float t = 2.0 + f, s = f / t;
    precise float t_high = high_part(t), t_low = f - (t_high - 2.0), s_high = high_part(s);
    precise float s_low = ((f - s_high * t_high) - s_high * t_low) / t;
    float z = s * s;
    // log(1 + f) = 2 s_high + rest;  log2(e) = 1.44238281 + 3.12230767e-4
    precise float rest = 2.0 * s_low + s * z * log_tail(z);
    precise float first = 2.0 * s_high * 1.44238281;
    precise float second = rest * 1.44269504 + 2.0 * s_high * 3.12230767e-4;
    precise float total = n + first;
    precise float low = (n == 0.0 ? 0.0 : first - (total - n)) + second;
    precise float exponent = total * y;
    if (!(abs(exponent) < 200.0)) return exp2_f32(exponent);
    precise float total_high = high_part(total), y_high = high_part(y);
    precise float exact = total_high * y_high;
    precise float small = (total - total_high) * y + total_high * (y - y_high) + low * y;
    float whole = roundEven(exact + small);
    float r = ((exact - whole) + small) * 0.693147181;
    return scale(1.0 + (r + r * r * exp_tail(r)), int(clamp(whole, -200.0, 200.0)));
}

// @function pow_f32 needs pow_positive is_nan is_inf inf_f32 nan_f32
// C's and NumPy's pow, with all its special cases: anything^0 = 1, 1^anything = 1, a negative base to whole powers.
precise float pow_f32(float x, float y) {
    if (y == 0.0 || x == 1.0) return 1.0;
    if (is_nan(x)) return x;
    if (is_nan(y)) return y;
    float distance = abs(x);
    if (is_inf(y)) return distance == 1.0 ? 1.0 : (distance > 1.0) == (y > 0.0) ? inf_f32() : 0.0;
    bool whole = floor(y) == y;
    bool odd = whole && abs(y) < 16777216.0 && (int(y) & 1) != 0;
    bool negative = floatBitsToInt(x) < 0;
    float value;
    if (x == 0.0 || is_inf(x)) value = (x == 0.0) == (y > 0.0) ? 0.0 : inf_f32();
    else if (negative && !whole) return nan_f32();
    else value = pow_positive(distance, y);
    return negative && odd ? -value : value;
}

// @function cbrt_f32 needs positive_finite scale
// A third of the exponent as a first guess (Kahan), then two steps of Halley's method.
precise float cbrt_f32(float x) {
    float a = abs(x);
    if (!positive_finite(a)) return x;
    int shift = 0;
    if (a < 1e-30) { a *= 1073741824.0; shift = -10; }
    if (a > 1e30) { a *= 9.31322575e-10; shift = 10; }  // 2^-30
    float t = uintBitsToFloat(floatBitsToUint(a) / 3u + 709921077u);
    for (int turn = 0; turn < 2; ++turn) {
        float c = t * t * t;
        t *= (c + a + a) / (c + c + a);
    }
    t = t - (t - a / (t * t)) * 0.333333333;
    t = scale(t, shift);
    return x < 0.0 ? -t : t;
}

// @function quarter_turns needs is_finite nan_f32
// x = n * pi/2 + r with |r| <= pi/4. Up to 20000 by Cody & Waite's three-part pi/2; beyond by Payne & Hanek's method
// (SIGNUM 18, 1983): multiply by the bits of 2/pi that matter, in integers.
precise float quarter_turns(float x, out int n) {
    float a = abs(x);
    if (a < 20000.0) {
        float k = roundEven(x * 0.636619772);
        n = int(k);
        if (n == 0) return x;
        precise float r = x - k * 1.5703125;
        r = r - k * 4.83512878e-4;
        return r - k * 3.13855708e-7 - k * 6.07710050e-11;
    }
    n = 0;
    if (!is_finite(x)) return nan_f32();
    const uint two_over_pi[9] = uint[9](
        0u, 0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu);
    uint w = floatBitsToUint(a);
    int e = int(w >> 23) - 118;  // a = mantissa * 2^(e - 32)
    uint mantissa = (w & 0x007fffffu) | 0x00800000u;
    // 128 bits of 2^(e - 32) 2/pi, of which the first 32 are whole; the bits before them only add multiples of 4 turns
    uint part[4];
    for (int i = 0; i < 4; ++i) {
        uint left = two_over_pi[(e >> 5) + i], right = two_over_pi[(e >> 5) + i + 1];
        part[i] = (e & 31) == 0 ? left : (left << (e & 31)) | (right >> (32 - (e & 31)));
    }
    // times the mantissa, from the last word up: whole quarter turns and two words of fraction
    uint high, low, carry, dropped, whole, first, second;
    umulExtended(mantissa, part[3], high, dropped);
    second = high;
    umulExtended(mantissa, part[2], high, low);
    second = uaddCarry(second, low, carry);
    first = high + carry;
    umulExtended(mantissa, part[1], high, low);
    first = uaddCarry(first, low, carry);
    whole = high + carry + mantissa * part[0];
    // to the nearest quarter turn
    bool above = first >= 0x80000000u;
    if (above) {
        whole += 1u;
        first = ~first;
        second = ~second;
    }
    float r = (float(first) + float(second) * 2.32830644e-10) * 3.65729509e-10;  // times pi/2 2^-32
    n = int(x < 0.0 ? 0u - whole : whole);
    return above == (x < 0.0) ? r : -r;
}

// @function sin_quarter
// sin r for |r| <= pi/4; error 5e-12. Zero keeps its sign, here and below.
precise float sin_quarter(float r) {
    float z = r * r;
    return r == 0.0 ? r : r + r * z * (-0.1666666664 + z * (0.008333329145 + z * (-0.0001983925709 + z * 2.717569584e-6)));
}

// @function cos_quarter
// cos r for |r| <= pi/4; error 1e-10
precise float cos_quarter(float r) {
    float z = r * r;
    return 1.0 - (0.5 * z - z * z * (0.0416666457 + z * (-0.001388730813 + z * 2.443143237e-5)));
}

// @function sin_f32 needs quarter_turns sin_quarter cos_quarter
precise float sin_f32(float x) {
    int n;
    float r = quarter_turns(x, n);
    float value = (n & 1) == 0 ? sin_quarter(r) : cos_quarter(r);
    return (n & 2) == 0 ? value : -value;
}

// @function cos_f32 needs quarter_turns sin_quarter cos_quarter
precise float cos_f32(float x) {
    int n;
    float r = quarter_turns(x, n);
    float value = (n & 1) == 0 ? cos_quarter(r) : sin_quarter(r);
    return ((n + 1) & 2) == 0 ? value : -value;
}

// @function tan_f32 needs quarter_turns sin_quarter cos_quarter
precise float tan_f32(float x) {
    int n;
    float r = quarter_turns(x, n);
    return (n & 1) == 0 ? sin_quarter(r) / cos_quarter(r) : -(cos_quarter(r) / sin_quarter(r));
}

// @function asin_small
// asin x for |x| <= 1/2; error 3e-10
precise float asin_small(float x) {
    float z = x * x;
    return x + x * z * (0.1666665985 + z * (0.07500512203 + z * (0.04451545853
        + z * (0.03181990506 + z * (0.01439358375 + z * 0.03757830415)))));
}

// @function asin_f32 needs asin_small
// Beyond 1/2: asin x = pi/2 - 2 asin(sqrt((1 - x) / 2)).
precise float asin_f32(float x) {
    float a = abs(x);
    if (!(a > 0.5)) return asin_small(x);
    float value = 1.57079633 - 2.0 * asin_small(sqrt(0.5 * (1.0 - a)));
    return x < 0.0 ? -value : value;
}

// @function acos_f32 needs asin_small
precise float acos_f32(float x) {
    if (x > 0.5) return 2.0 * asin_small(sqrt(0.5 * (1.0 - x)));
    if (x < -0.5) return 3.14159265 - 2.0 * asin_small(sqrt(0.5 * (1.0 + x)));
    return 1.57079633 - asin_small(x);
}

// @function atan_small
// atan x for |x| <= tan(pi/8); error 7e-10
precise float atan_small(float x) {
    float z = x * x;
    return x == 0.0 ? x : x + x * z * (-0.3333331469 + z * (0.1999843497 + z * (-0.1424275158 + z * (0.1058744426 - z * 0.06060750388))));
}

// @function atan_f32 needs atan_small
precise float atan_f32(float x) {
    float a = abs(x), value;
    if (a > 2.41421356) value = 1.57079633 - atan_small(1.0 / a);
    else if (a > 0.414213562) value = 0.785398163 + atan_small((a - 1.0) / (a + 1.0));
    else return atan_small(x);
    return x < 0.0 ? -value : value;
}

// @function atan2_f32 needs atan_f32 is_inf is_nan
precise float atan2_f32(float y, float x) {
    if (is_nan(x) || is_nan(y)) return x + y;
    float a = abs(y), c = abs(x), angle;
    if (is_inf(a) && is_inf(c)) angle = 0.785398163;
    else if (a == 0.0) angle = 0.0;
    else angle = a > c ? 1.57079633 - atan_f32(c / a) : atan_f32(a / c);
    if (floatBitsToInt(x) < 0) angle = 3.14159265 - angle;
    return floatBitsToInt(y) < 0 ? -angle : angle;
}

// @function sinh_f32 needs expm1_f32 exp_f32
// (e + e / (1 + e)) / 2 with e = expm1|x|; the halves of e^|x| are multiplied last, so that only the result overflows.
precise float sinh_f32(float x) {
    float a = abs(x), value;
    if (a < 1.0) {
        float z = x * x;
        return x + x * z * (0.1666666648 + z * (0.00833335112 + z * (0.0001983596199 + z * 2.818055605e-6)));
    }
    if (a > 9.0) { float root = exp_f32(0.5 * a); value = (0.5 * root) * root; }
    else { float e = expm1_f32(a); value = 0.5 * (e + e / (1.0 + e)); }
    return x < 0.0 ? -value : value;
}

// @function cosh_f32 needs exp_f32
precise float cosh_f32(float x) {
    float a = abs(x);
    if (a > 9.0) { float root = exp_f32(0.5 * a); return (0.5 * root) * root; }
    float e = exp_f32(a);
    return 0.5 * e + 0.5 / e;
}

// @function tanh_f32 needs exp_f32
// The built-in one overflows to NaN for large x on some drivers.
precise float tanh_f32(float x) {
    float a = abs(x);
    if (!(a > 0.625)) {
        float z = x * x;
        return x == 0.0 ? x : x + x * z * (-0.3333333019 + z * (0.1333318048 + z * (-0.05394339449
            + z * (0.02168162059 + z * (-0.00812895742 + z * 0.002097689274)))));
    }
    float value = 1.0 - 2.0 / (exp_f32(2.0 * min(a, 20.0)) + 1.0);
    return x < 0.0 ? -value : value;
}

// @function asinh_f32 needs log1p_f32 log_f32
// log1p(a + a^2 / (1 + sqrt(1 + a^2))); for large a log(2a).
precise float asinh_f32(float x) {
    float a = abs(x), value;
    if (a > 1e8) value = log_f32(a) + 0.693147181;
    else value = log1p_f32(a + a * a / (1.0 + sqrt(1.0 + a * a)));
    return floatBitsToInt(x) < 0 ? -value : value;
}

// @function acosh_f32 needs log1p_f32 log_f32 nan_f32
precise float acosh_f32(float x) {
    if (x > 1e8) return log_f32(x) + 0.693147181;
    float t = x - 1.0;
    return t < 0.0 ? nan_f32() : log1p_f32(t + sqrt(2.0 * t + t * t));
}

// @function atanh_f32 needs log1p_f32 nan_f32
precise float atanh_f32(float x) {
    float a = abs(x);
    if (a > 1.0) return nan_f32();
    if (!(a > 0.5)) {
        float z = x * x;
        return x + x * z * (0.3333333725 + z * (0.1999962776 + z * (0.1429762044 + z * (0.1093213836
            + z * (0.1050569517 + z * (0.0175771956 + z * 0.1843606004))))));
    }
    float value = 0.5 * log1p_f32(2.0 * a / (1.0 - a));
    return x < 0.0 ? -value : value;
}

// @function sigmoid_f32 needs exp_f32
precise float sigmoid_f32(float x) { return 1.0 / (1.0 + exp_f32(-x)); }

// @function softplus_f32 needs exp_f32 log1p_f32 nan_max
precise float softplus_f32(float x) { return nan_max(x, 0.0) + log1p_f32(exp_f32(-abs(x))); }

// @function erf_small
// erf x for |x| <= 1; error 1e-9
precise float erf_small(float x) {
    float z = x * x;
    return x + x * (0.1283791659 + z * (-0.3761262712 + z * (0.1128360002 + z * (-0.02685443777
        + z * (0.005189521749 + z * (-0.0008020715713 + z * 7.888682766e-5))))));
}

// @function erfc_tail needs exp_f32 high_part
// erfc x for 0.45 <= x <= 10.2: exp(-x^2) / (1 + 2x) times a polynomial in (x - 2) / (x + 2); error 1e-9
// (the form of Shepherd & Laframboise, Math. Comp. 36, 1981). x^2 is split, for exp magnifies its rounding.
precise float erfc_tail(float x) {
    x = min(x, 10.2);
    float head = high_part(x);
    float t = (x - 2.0) / (x + 2.0);
    float p = 1.276978381 + t * (-0.09276381144 + t * (-0.1660303712 + t * (0.1640505475 + t * (-0.05422057419
        + t * (-0.008024023322 + t * (0.008726746406 + t * (0.001214881179 + t * (-0.001467574263
        + t * (-0.0003099388224 + t * 0.0002132624069)))))))));
    return exp_f32(-head * head) * exp_f32((head - x) * (head + x)) * p / (1.0 + 2.0 * x);
}

// @function erf_f32 needs erf_small erfc_tail
precise float erf_f32(float x) {
    float a = abs(x);
    if (!(a > 1.0)) return erf_small(x);
    float value = 1.0 - erfc_tail(a);
    return x < 0.0 ? -value : value;
}

// @function erfc_f32 needs erf_small erfc_tail
precise float erfc_f32(float x) {
    float a = abs(x);
    if (!(a > 0.5)) return 1.0 - erf_small(x);
    float tail = erfc_tail(a);
    return x < 0.0 ? 2.0 - tail : tail;
}

// @function erfinv_f32 needs log1p_f32 log_f32 inf_f32 nan_f32
// x times a polynomial in w - 2.5, w = -log(1 - x^2), or in sqrt(w) - 3 for w >= 5; error 5e-8 (the variables of
// M. Giles, "Approximating the erfinv function", GPU Computing Gems, 2011).
precise float erfinv_f32(float x) {
    float a = abs(x);
    if (!(a < 1.0)) return a == 1.0 ? x * inf_f32() : nan_f32();
    float w = a < 0.5 ? -log1p_f32(-x * x) : -log_f32((1.0 - a) * (1.0 + a));
    if (w < 5.0) {
        w -= 2.5;
        return x * (1.501409359 + w * (0.2466402961 + w * (-0.00417738416 + w * (-0.001252763767 + w * (0.0002183422271
            + w * (-4.950482636e-6 + w * (-3.462117856e-6 + w * (4.633846252e-7 + w * (2.318447157e-8 - w * 8.590650977e-9)))))))));
    }
    float s = sqrt(w) - 3.0;
    return x * (2.832976826 + s * (1.001674878 + s * (0.009443942047 + s * (-0.00763574098 + s * (0.005697773658
        + s * (-0.003606276597 + s * (0.001457594767 + s * (-3.548761516e-5 + s * (-0.0002876234471 + s * 9.795587464e-5)))))))));
}

// @function lgamma_near_two
// log(gamma(2 + e)) / e for -1/2 <= e <= 1; error 2e-9
precise float lgamma_near_two(float e) {
    return 0.4227843372 + e * (0.3224670317 + e * (-0.06735251318 + e * (0.02058098173 + e * (-0.007382240299
        + e * (0.00288636919 + e * (-0.001208188947 + e * (0.0005383382188 + e * (-0.0002127392719 + e * 4.58060594e-5))))))));
}

// @function lgamma_positive needs lgamma_near_two log_f32 log1p_f32 is_inf
// Up to 8 by lgamma(x + 1) = lgamma(x) + log(x), arranged so that the polynomial's argument is exact; beyond by
// Stirling's series (DLMF 5.11.1).
precise float lgamma_positive(float x) {
    if (x < 0.5) return x * lgamma_near_two(x) - log1p_f32(x) - log_f32(x);
    if (x < 1.5) return (x - 1.0) * lgamma_near_two(x - 1.0) - log1p_f32(x - 1.0);
    if (x < 8.0) {
        float product = 1.0;
        while (x > 3.0) { x -= 1.0; product *= x; }
        return (x - 2.0) * lgamma_near_two(x - 2.0) + log_f32(product);
    }
    if (is_inf(x)) return x;
    float r = 1.0 / x, z = r * r, l = log_f32(x);
    return x * (l - 1.0) - 0.5 * l + (0.918938533 + r * (0.0833333333 + z * (-0.00277777778 + z * 7.93650794e-4)));
}

// @function sin_half_turns needs sin_quarter cos_quarter
// sin(pi x), exact at whole x.
precise float sin_half_turns(float x) {
    float k = roundEven(2.0 * x);
    float r = (x - 0.5 * k) * 3.14159265;
    int n = int(k - 4.0 * floor(0.25 * k));
    float value = (n & 1) == 0 ? sin_quarter(r) : cos_quarter(r);
    return (n & 2) == 0 ? value : -value;
}

// @function lgamma_f32 needs lgamma_positive sin_half_turns log_f32 inf_f32 is_inf
// For negative x by reflection (DLMF 5.5.3).
precise float lgamma_f32(float x) {
    if (x > 0.0) return lgamma_positive(x);
    if (is_inf(x) || x == floor(x)) return inf_f32();
    return 1.14472989 - log_f32(abs(x * sin_half_turns(x))) - lgamma_positive(-x);
}

// @function digamma_positive needs log_f32
// Up by digamma(x) = digamma(x + 1) - 1/x, then the asymptotic series (DLMF 5.11.2).
precise float digamma_positive(float x) {
    float total = 0.0;
    while (x < 6.0) { total -= 1.0 / x; x += 1.0; }
    float r = 1.0 / x, z = r * r;
    return total + (log_f32(x) - 0.5 * r - z * (0.0833333333 - z * (0.00833333333 - z * 0.00396825397)));
}

// @function digamma_f32 needs digamma_positive sin_half_turns inf_f32 nan_f32
// For negative x by reflection (DLMF 5.5.4); cos(pi x) = sin(pi (x + 1/2)) with x first taken to |x| <= 1/2.
precise float digamma_f32(float x) {
    if (x > 0.0) return digamma_positive(x);
    if (x == 0.0) return floatBitsToInt(x) < 0 ? inf_f32() : -inf_f32();
    if (!(x != floor(x))) return nan_f32();
    float r = x - roundEven(x);
    return digamma_positive(1.0 - x) - 3.14159265 * sin_half_turns(r + 0.5) / sin_half_turns(r);
}

// @function hurwitz_zeta
// The sum of (x + k)^-s over k >= 0 for x > 0 and a whole s >= 2, by Euler and Maclaurin (DLMF 25.11.43).
precise float hurwitz_zeta(int s, float x) {
    float total = 0.0;
    for (int k = 0; k < 10; ++k) {
        float power = 1.0;
        for (int i = 0; i < s; ++i) power /= x;
        total += power;
        x += 1.0;
    }
    float power = 1.0;
    for (int i = 1; i < s; ++i) power /= x;
    float n = float(s), z = 1.0 / (x * x);
    float series = n / 12.0 * (1.0 - (n + 1.0) * (n + 2.0) * z / 60.0 * (1.0 - (n + 3.0) * (n + 4.0) * z / 42.0));
    return total + power * (1.0 / (n - 1.0) + 0.5 / x + series * z);
}

// @function polygamma_f32 needs hurwitz_zeta sin_half_turns inf_f32 nan_f32 is_inf is_nan
// (-1)^(n + 1) n! zeta(n + 1, x); for negative x only n = 1, by reflection (DLMF 5.15.6).
precise float polygamma_f32(int n, float x) {
    if (is_nan(x)) return x;
    if (is_inf(x)) return x > 0.0 ? 0.0 : nan_f32();
    if (x > 0.0) {
        float factor = (n & 1) == 1 ? 1.0 : -1.0;
        for (int k = 2; k <= n; ++k) factor *= float(k);
        return factor * hurwitz_zeta(n + 1, x);
    }
    if (n != 1) return nan_f32();
    if (x == floor(x)) return inf_f32();
    float s = 3.14159265 / sin_half_turns(x);
    return s * s - hurwitz_zeta(2, 1.0 - x);
}

// @function threefry2x32
// Threefry-2x32 with 20 rounds (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011).
uvec2 threefry2x32(uvec2 key, uvec2 counter) {
    const uint rotation[8] = uint[8](13u, 15u, 26u, 6u, 17u, 29u, 16u, 24u);
    uint keys[3] = uint[3](key.x, key.y, key.x ^ key.y ^ 0x1bd11bdau);
    uvec2 v = counter + key;
    for (int group = 0; group < 5; ++group) {
        for (int i = 0; i < 4; ++i) {
            uint turn = rotation[(4 * group + i) % 8];
            v.x += v.y;
            v.y = ((v.y << turn) | (v.y >> (32u - turn))) ^ v.x;
        }
        v.x += keys[(group + 1) % 3];
        v.y += keys[(group + 2) % 3] + uint(group + 1);
    }
    return v;
}
