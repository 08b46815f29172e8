// Random bits.

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
