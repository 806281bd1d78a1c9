#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/whisper/checkpoint/checkpoint.h"
#include "models/whisper/checkpoint/network.h"
#include "models/whisper/checkpoint/vocabulary.h"
#include "models/whisper/library/library.h"
#include "models/whisper/request/request_options.h"

namespace wavepool::whisper {

/// The immutable part that all sessions of one checkpoint share.
struct SharedModel {
    SharedModel(const Checkpoint& checkpoint, library::ContextPtr loaded,
                std::shared_ptr<const NetworkWeights> weights)
        : parameters(checkpoint.parameters()),
          vocabulary(checkpoint.tokens(), parameters.end_token()),
          languages(language_codes(parameters)),
          context(std::move(loaded)),
          heads(library::alignment_heads(*context)),
          special(library::special_tokens(*context)),
          network(std::move(weights)) {}

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
