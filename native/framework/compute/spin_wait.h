#pragma once

// How ggml's threads wait for each other at the end of every node, included before ggml-cpu.c. ggml
// only pauses: on a machine that is busy with other work, a thread then burns the time slice that
// its partner needs in order to arrive. Most waits are over within the pauses of one round.

#include <immintrin.h>
#include <sched.h>

static inline void wavepool_spin_wait(void) {
    static _Thread_local unsigned pauses = 0;
    enum { kPausesBetweenYields = 128 };
    if (++pauses % kPausesBetweenYields == 0) {
        sched_yield();
    } else {
        _mm_pause();
    }
}

#define _mm_pause wavepool_spin_wait
