#include "models/whisper/request/request_options.h"

#include <whisper.h>

#include <algorithm>

#include "framework/error.h"

namespace wavepool::whisper {
namespace {

constexpr std::size_t kLongestPrompt = 16 * 1024;

template <typename T>
const T& value_of(const std::string& name, const OptionValue& value, const char* type) {
    if (const T* typed = std::get_if<T>(&value)) return *typed;
    throw Error(ErrorCode::kInvalidRequest, name + " is " + type);
}

bool flag(const std::string& name, const OptionValue& value) {
    return value_of<bool>(name, value, "true or false");
}

int language_id(const std::string& code, const Parameters& parameters) {
    const std::vector<std::string> codes = language_codes(parameters);
    const auto found = std::ranges::find(codes, code);
    if (found == codes.end()) {
        throw Error(ErrorCode::kInvalidRequest, parameters.multilingual()
                                                    ? "the model does not know the language " + code
                                                    : "the model knows English (en) only");
    }
    return static_cast<int>(found - codes.begin());
}

}  // namespace

std::vector<std::string> language_codes(const Parameters& parameters) {
    std::vector<std::string> codes;
    for (int id = 0; id < static_cast<int>(parameters.languages()); ++id) {
        codes.emplace_back(whisper_lang_str(id));
    }
    return codes;
}

std::vector<std::string> option_names(const Parameters& parameters) {
    std::vector<std::string> names{"suppressBlank", "language", "prompt", "words"};
    if (parameters.multilingual()) names.emplace_back("translate");
    return names;
}

RequestOptions read_options(const TaskOptions& options, const Parameters& parameters) {
    const std::vector<std::string> known = option_names(parameters);
    RequestOptions read;
    for (const auto& [name, value] : options) {
        if (std::ranges::find(known, name) == known.end()) {
            throw Error(ErrorCode::kInvalidRequest, "the model has no option \"" + name + "\"");
        }
        if (name == "suppressBlank") read.suppress_blank = flag(name, value);
        if (name == "words") read.words = flag(name, value);
        if (name == "translate") read.translate = flag(name, value);
        if (name == "language") {
            read.language =
                language_id(value_of<std::string>(name, value, "a language code"), parameters);
        }
        if (name == "prompt") read.prompt = value_of<std::string>(name, value, "a string");
    }
    if (read.prompt.size() > kLongestPrompt) {
        throw Error(ErrorCode::kInvalidRequest, "a prompt of more than 16 KiB");
    }
    return read;
}

}  // namespace wavepool::whisper
