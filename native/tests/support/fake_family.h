#pragma once

#include <filesystem>
#include <memory>
#include <span>

#include "framework/models/model.h"

namespace wavepool::fake {

/// Two families with deterministic results and injectable faults (faults.h), for tests and
/// benchmarks of everything around the models.
///
/// "fake" (asr): the text is "fake CHECKSUM COUNT" over the samples of the segment; tokens are one
/// id per 1600 samples. It speaks languages where its file has fake.languages (string: "en,de"):
/// then the options of all asr families are taken, too, and a result has a language (by the
/// checksum, unless given) and two pieces of probability 0.9, the first word and the others; its
/// words, which they have if asked, share the segment equally. A translation begins with
/// "translated". A prompt that begins with "echo " is put, with the language, after the text.
/// "fake-vad" (vad): one probability per 512 samples from their loudness, smoothed with the
/// probability before it, which the state carries. Both also stream (fake_stream.h).
///
/// The GGUF file has these metadata keys: general.architecture, general.name; fake.capacity
/// (integer: sessions supported), fake.native_batch (integer: 1 or 0), fake.max_segment_seconds
/// (float, 0 = unbounded); and one f32 tensor fake.weight of shape [4]. Sessions of more than eight
/// threads support no parallel use, whatever fake.capacity says.
///
/// Options of one request:
///   fault  string: "prepare", "run", "hang", "gate" or "abort", for this item alone
///   calls  true: the text ends in " #SESSION.CALL", numbers of the session in this process and of
///          its calls so far
///   rank   number: the items of a batch end in ascending rank, then index
[[nodiscard]] std::span<const Family> families();

/// How many fakes exist in this process; a session counts until it has been destroyed.
struct LiveObjects {
    int weights = 0;
    int sessions = 0;
};
[[nodiscard]] LiveObjects live_objects();

}  // namespace wavepool::fake
