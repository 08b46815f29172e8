#define LOOPS loops_of_avx2
#include "loops.inc" // compiled for AVX2
