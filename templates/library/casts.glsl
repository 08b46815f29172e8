// Changes of type. GLSL leaves much of them undefined; see the op `cast`.

// @function cast_bool
bool cast_bool(float x) { return x != 0.0; }

// @function cast_bool@double
bool cast_bool(double x) { return x != 0.0LF; }

// @function cast_int32 needs is_nan
// GLSL leaves the conversion undefined outside the integer's range; here it stops at the end of the range.
int cast_int32(float x) {
    if (is_nan(x)) return 0;
    if (x >= 2147483648.0) return 2147483647;
    return x < -2147483648.0 ? int(0x80000000u) : int(x);
}

// @function cast_int32@double needs is_nan@double
int cast_int32(double x) {
    if (is_nan(x)) return 0;
    if (x >= 2147483647.0LF) return 2147483647;
    return x <= -2147483648.0LF ? int(0x80000000u) : int(x);
}

// @function cast_uint32 needs is_nan
uint cast_uint32(float x) {
    if (is_nan(x) || x <= 0.0) return 0u;
    return x >= 4294967296.0 ? 0xffffffffu : uint(x);
}

// @function cast_uint32@double needs is_nan@double
uint cast_uint32(double x) {
    if (is_nan(x) || x <= 0.0LF) return 0u;
    return x >= 4294967295.0LF ? 0xffffffffu : uint(x);
}

// @function cast_float32
precise float cast_float32(float x) { return x; }

// @function cast_float32@double
precise float cast_float32(double x) { return float(x); }

// @function cast_float64
// (empty: a float becomes a double only where doubles exist)

// @function cast_float64@double
precise double cast_float64(float x) { return double(x); }
precise double cast_float64(double x) { return x; }

// @function cast_int8 needs cast_int32
int cast_int8(float x) { return clamp(cast_int32(x), -128, 127); }

// @function cast_int8@double needs cast_int32@double
int cast_int8(double x) { return clamp(cast_int32(x), -128, 127); }

// @function cast_int16 needs cast_int32
int cast_int16(float x) { return clamp(cast_int32(x), -32768, 32767); }

// @function cast_int16@double needs cast_int32@double
int cast_int16(double x) { return clamp(cast_int32(x), -32768, 32767); }

// @function cast_uint8 needs cast_uint32
uint cast_uint8(float x) { return min(cast_uint32(x), 255u); }

// @function cast_uint8@double needs cast_uint32@double
uint cast_uint8(double x) { return min(cast_uint32(x), 255u); }

// @function cast_uint16 needs cast_uint32
uint cast_uint16(float x) { return min(cast_uint32(x), 65535u); }

// @function cast_uint16@double needs cast_uint32@double
uint cast_uint16(double x) { return min(cast_uint32(x), 65535u); }

// @function cast_int64 needs is_nan
int64_t cast_int64(float x) {
    if (is_nan(x)) return 0l;
    if (x >= 9223372036854775808.0) return 9223372036854775807l;
    return x < -9223372036854775808.0 ? int64_t(0x8000000000000000ul) : int64_t(x);
}

// @function cast_int64@double needs is_nan@double
int64_t cast_int64(double x) {
    if (is_nan(x)) return 0l;
    if (x >= 9223372036854775808.0LF) return 9223372036854775807l;
    return x < -9223372036854775808.0LF ? int64_t(0x8000000000000000ul) : int64_t(x);
}

// @function cast_uint64 needs is_nan
uint64_t cast_uint64(float x) {
    if (is_nan(x) || x <= 0.0) return 0ul;
    return x >= 18446744073709551616.0 ? 0xfffffffffffffffful : uint64_t(x);
}

// @function cast_uint64@double needs is_nan@double
uint64_t cast_uint64(double x) {
    if (is_nan(x) || x <= 0.0LF) return 0ul;
    return x >= 18446744073709551616.0LF ? 0xfffffffffffffffful : uint64_t(x);
}

// @function cast_float16
precise float cast_float16(float x) { return x; }

// @function cast_float16@double
precise float cast_float16(double x) { return float(x); }

// @function cast_bfloat16
precise float cast_bfloat16(float x) { return x; }

// @function cast_bfloat16@double
precise float cast_bfloat16(double x) { return float(x); }
