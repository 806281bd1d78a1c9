#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/whisper/checkpoint/checkpoint.h"
#include "models/whisper/checkpoint/network.h"
#include "models/whisper/checkpoint/vocabulary.h"
#include "models/whisper/library/library.h"

namespace wavepool::whisper {

/// What all sessions of one checkpoint share.
struct SharedModel {
    SharedModel(const Checkpoint& checkpoint, library::ContextPtr loaded,
                std::shared_ptr<const NetworkWeights> weights);

    Parameters parameters;
    Vocabulary vocabulary;
    std::vector<std::string> languages;
    // whisper.cpp's functions want it mutable and change nothing in it.
    library::ContextPtr context;
    std::vector<library::AlignmentHead> heads;
    library::SpecialTokens special;
    /// Null: everything is computed by whisper.cpp.
    std::shared_ptr<const NetworkWeights> network;
};

}  // namespace wavepool::whisper
