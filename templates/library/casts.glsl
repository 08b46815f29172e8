// Changes of type. GLSL leaves much of them undefined; see the op `cast`.

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
