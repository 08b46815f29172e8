// Types that are only stored. A value of one is a float, int or uint that the narrow type can hold: `narrow_TYPE` makes
// it one, `from_TYPE` and `to_TYPE` read and write its bits. All by integers: GLSL promises neither that packHalf2x16
// rounds to the nearest nor that subnormal numbers survive. What is `native` is for devices that were found to do both.

// Choices are made by `mix`, which is one instruction; `?:` makes branches, of which some compilers cannot take many.

// @function from_float16
precise float from_float16(uint bits) {
    uint magnitude = bits & 0x7fffu;
    uint small = floatBitsToUint(float(magnitude) * 5.9604644775390625e-8); // subnormal: units of 2^-24, a normal float
    uint large = (magnitude << 13) + mix(0x38000000u, 0x70000000u, magnitude >= 0x7c00u);
    return uintBitsToFloat(mix(large, small, magnitude < 0x400u) | (bits & 0x8000u) << 16);
}

// @function to_float16
// To the nearest, ties to even; from 65520 on infinity.
uint to_float16(float x) {
    uint bits = floatBitsToUint(x), magnitude = bits & 0x7fffffffu;
    uint near = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    uint small = uint(roundEven(uintBitsToFloat(min(magnitude, 0x38800000u)) * 16777216.0));
    uint finite = mix(near, small, magnitude < 0x38800000u);
    uint special = mix(0x7c00u, 0x7e00u, magnitude > 0x7f800000u);
    return mix(finite, special, magnitude >= 0x477ff000u) | (bits >> 16 & 0x8000u);
}

// @function from_float16@native
precise float from_float16(uint bits) { return unpackHalf2x16(bits).x; }

// @function to_float16@native
uint to_float16(float x) { return packHalf2x16(vec2(x, 0)); }

// @function narrow_float16 needs from_float16 to_float16
precise float narrow_float16(float x) { return from_float16(to_float16(x)); }

// @function narrow_bfloat16
// The upper half of a float, to the nearest, ties to even.
precise float narrow_bfloat16(float x) {
    uint bits = floatBitsToUint(x);
    uint near = bits + 0x7fffu + ((bits >> 16) & 1u);
    return uintBitsToFloat(mix(near, bits | 0x400000u, (bits & 0x7fffffffu) > 0x7f800000u) & 0xffff0000u);
}

// @function from_bfloat16
precise float from_bfloat16(uint bits) { return uintBitsToFloat(bits << 16); }

// @function to_bfloat16 needs narrow_bfloat16
uint to_bfloat16(float x) { return floatBitsToUint(narrow_bfloat16(x)) >> 16; }

// @function narrow_int8
int narrow_int8(int x) { return bitfieldExtract(x, 0, 8); }

// @function narrow_int16
int narrow_int16(int x) { return bitfieldExtract(x, 0, 16); }

// @function narrow_uint8
uint narrow_uint8(uint x) { return x & 0xffu; }

// @function narrow_uint16
uint narrow_uint16(uint x) { return x & 0xffffu; }

// @function byte_of
// Element `at` of a word that holds four.
uint byte_of(uint word, int at) { return bitfieldExtract(word, (at & 3) << 3, 8); }

// @function half_of
// Element `at` of a word that holds two.
uint half_of(uint word, int at) { return bitfieldExtract(word, (at & 1) << 4, 16); }
