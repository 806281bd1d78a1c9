#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/sessions/session.h"
#include "models/whisper/checkpoint/checkpoint.h"

namespace wavepool::whisper {

/// The codes of the languages that a model tells apart; a language's id is its place.
[[nodiscard]] std::vector<std::string> language_codes(const Parameters& parameters);

/// The names that TaskRequest::options may hold for a model.
[[nodiscard]] std::vector<std::string> option_names(const Parameters& parameters);

struct RequestOptions {
    bool suppress_blank = false;
    std::optional<int> language;  ///< its id
    bool translate = false;
    bool words = false;
    std::string prompt;
};

/// Throws Error{kInvalidRequest} for an option that the model does not have, a value of another
/// type, a language that it does not know or a prompt of more than 16 KiB.
[[nodiscard]] RequestOptions read_options(const TaskOptions& options, const Parameters& parameters);

}  // namespace wavepool::whisper
