// What a device has done since it was opened; and, where it says so, what is alive now.
#pragma once
#include <atomic>
#include <cstdint>

// name, what it counts
#define VKGRAD_COUNTERS(X)                                                                                             \
    X(submissions) /* vkQueueSubmit calls */                                                                           \
    X(dispatches)  /* carried out by submissions, like the three below; a replay counts again */                       \
    X(barriers)                                                                                                        \
    X(copies)                                                                                                          \
    X(fills)                                                                                                           \
    X(plans)               /* finished plans */                                                                        \
    X(recordings)          /* command buffers recorded: a plan's first, then one for each further copy in flight */    \
    X(dispatches_recorded) /* by recordings */                                                                         \
    X(barriers_recorded)                                                                                               \
    X(sequences) /* kp::Sequence objects made */                                                                       \
    X(pipelines_created)                                                                                               \
    X(pipeline_lookups) /* pipeline() calls answered from the table */                                                 \
    X(descriptor_sets)  /* sets allocated, in use or pooled */                                                         \
    X(buffers_allocated)                                                                                               \
    X(buffers_live)                                                                                                    \
    X(bytes_allocated)  /* in live buffers, rounded up to the alignment */                                             \
    X(blocks_allocated) /* vkAllocateMemory calls */                                                                   \
    X(blocks)           /* live VkDeviceMemory objects */                                                              \
    X(bytes_reserved)   /* in live VkDeviceMemory objects */

namespace vkgrad {
struct Counters {
#define DECLARE(name) std::atomic<uint64_t> name{0};
    VKGRAD_COUNTERS(DECLARE)
#undef DECLARE
};
} // namespace vkgrad
