// Random bits.

// @function threefry2x32
// Threefry-2x32 with 20 rounds (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011).
// Written out: where a driver leaves a loop as it is, arrays that it indexes go through memory (H200: ten million
// numbers in 314 us, and 36 so).
uvec2 threefry2x32(uvec2 key, uvec2 counter) {
    uint third = key.x ^ key.y ^ 0x1bd11bdau;
    uvec2 v = counter + key;
    v.x += v.y; v.y = ((v.y << 13) | (v.y >> 19)) ^ v.x;
    v.x += v.y; v.y = ((v.y << 15) | (v.y >> 17)) ^ v.x;
    v.x += v.y; v.y = ((v.y << 26) | (v.y >> 6)) ^ v.x;
    v.x += v.y; v.y = ((v.y << 6) | (v.y >> 26)) ^ v.x;
    v += uvec2(key.y, third + 1u);
    v.x += v.y; v.y = ((v.y << 17) | (v.y >> 15)) ^ v.x;
    v.x += v.y; v.y = ((v.y << 29) | (v.y >> 3)) ^ v.x;
    v.x += v.y; v.y = ((v.y << 16) | (v.y >> 16)) ^ v.x;
    v.x += v.y; v.y = ((v.y << 24) | (v.y >> 8)) ^ v.x;
    v += uvec2(third, key.x + 2u);
    v.x += v.y; v.y = ((v.y << 13) | (v.y >> 19)) ^ v.x;
    v.x += v.y; v.y = ((v.y << 15) | (v.y >> 17)) ^ v.x;
    v.x += v.y; v.y = ((v.y << 26) | (v.y >> 6)) ^ v.x;
    v.x += v.y; v.y = ((v.y << 6) | (v.y >> 26)) ^ v.x;
    v += uvec2(key.x, key.y + 3u);
    v.x += v.y; v.y = ((v.y << 17) | (v.y >> 15)) ^ v.x;
    v.x += v.y; v.y = ((v.y << 29) | (v.y >> 3)) ^ v.x;
    v.x += v.y; v.y = ((v.y << 16) | (v.y >> 16)) ^ v.x;
    v.x += v.y; v.y = ((v.y << 24) | (v.y >> 8)) ^ v.x;
    v += uvec2(key.y, third + 4u);
    v.x += v.y; v.y = ((v.y << 13) | (v.y >> 19)) ^ v.x;
    v.x += v.y; v.y = ((v.y << 15) | (v.y >> 17)) ^ v.x;
    v.x += v.y; v.y = ((v.y << 26) | (v.y >> 6)) ^ v.x;
    v.x += v.y; v.y = ((v.y << 6) | (v.y >> 26)) ^ v.x;
    v += uvec2(third, key.x + 5u);
    return v;
}
