// Angles in single precision.

// @function quarter_turns needs is_finite nan_float
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
    if (!is_finite(x)) return nan_float();
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

// @function sin_float needs quarter_turns sin_quarter cos_quarter
precise float sin_float(float x) {
    int n;
    float r = quarter_turns(x, n);
    float value = (n & 1) == 0 ? sin_quarter(r) : cos_quarter(r);
    return (n & 2) == 0 ? value : -value;
}

// @function cos_float needs quarter_turns sin_quarter cos_quarter
precise float cos_float(float x) {
    int n;
    float r = quarter_turns(x, n);
    float value = (n & 1) == 0 ? cos_quarter(r) : sin_quarter(r);
    return ((n + 1) & 2) == 0 ? value : -value;
}

// @function tan_float needs quarter_turns sin_quarter cos_quarter
precise float tan_float(float x) {
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

// @function asin_float needs asin_small
// Beyond 1/2: asin x = pi/2 - 2 asin(sqrt((1 - x) / 2)).
precise float asin_float(float x) {
    float a = abs(x);
    if (!(a > 0.5)) return asin_small(x);
    float value = 1.57079633 - 2.0 * asin_small(sqrt(0.5 * (1.0 - a)));
    return x < 0.0 ? -value : value;
}

// @function acos_float needs asin_small
precise float acos_float(float x) {
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

// @function atan_float needs atan_small
precise float atan_float(float x) {
    float a = abs(x), value;
    if (a > 2.41421356) value = 1.57079633 - atan_small(1.0 / a);
    else if (a > 0.414213562) value = 0.785398163 + atan_small((a - 1.0) / (a + 1.0));
    else return atan_small(x);
    return x < 0.0 ? -value : value;
}

// @function atan2_float needs atan_float is_inf is_nan
precise float atan2_float(float y, float x) {
    if (is_nan(x) || is_nan(y)) return x + y;
    float a = abs(y), c = abs(x), angle;
    if (is_inf(a) && is_inf(c)) angle = 0.785398163;
    else if (a == 0.0) angle = 0.0;
    else angle = a > c ? 1.57079633 - atan_float(c / a) : atan_float(a / c);
    if (floatBitsToInt(x) < 0) angle = 3.14159265 - angle;
    return floatBitsToInt(y) < 0 ? -angle : angle;
}
