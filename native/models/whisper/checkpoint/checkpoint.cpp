#include "models/whisper/checkpoint/checkpoint.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

#include "framework/error.h"
#include "framework/tensors/ggml_bin_header.h"

namespace wavepool::whisper {
namespace {

constexpr std::int64_t kEnglishVocabulary = 51864;
constexpr std::int64_t kMultilingualVocabulary = 51865;
constexpr std::int64_t kLargestVocabulary = 51866;  // one language more
constexpr std::int64_t kHeadWidth = 64;             // the same in every Whisper model
constexpr std::int64_t kMostHeads = 64;
constexpr std::int64_t kMostLayers = 64;
constexpr std::int64_t kMelFrequencies = 201;
constexpr std::size_t kMostTokenBytes = 512;

/// The types that a tensor may have.
enum class Storage {
    kMatrix,       ///< all of one type, which the file type names
    kConvolution,  ///< f16, or f32 in a file of f32
    kVector,       ///< f32
};

struct Expected {
    std::string name;
    std::vector<std::int64_t> shape;
    Storage storage;
};

class Layout {
  public:
    explicit Layout(const Parameters& sizes) : sizes_(sizes) {
        const std::int64_t n = sizes.state;
        add("encoder.positional_embedding", {kAudioContext, n}, Storage::kVector);
        add("encoder.conv1.weight", {n, sizes.mel_bins, 3}, Storage::kConvolution);
        add("encoder.conv1.bias", {n, 1}, Storage::kVector);
        add("encoder.conv2.weight", {n, n, 3}, Storage::kConvolution);
        add("encoder.conv2.bias", {n, 1}, Storage::kVector);
        norm("encoder.ln_post");
        for (std::int64_t layer = 0; layer < sizes.audio_layers; ++layer) {
            block("encoder.blocks." + std::to_string(layer), false);
        }
        add("decoder.positional_embedding", {kTextContext, n}, Storage::kVector);
        add("decoder.token_embedding.weight", {sizes.vocabulary, n}, Storage::kMatrix);
        norm("decoder.ln");
        for (std::int64_t layer = 0; layer < sizes.text_layers; ++layer) {
            block("decoder.blocks." + std::to_string(layer), true);
        }
    }

    [[nodiscard]] const std::vector<Expected>& tensors() const { return tensors_; }

  private:
    void add(std::string name, std::vector<std::int64_t> shape, Storage storage) {
        tensors_.push_back({std::move(name), std::move(shape), storage});
    }
    void norm(const std::string& name) {
        add(name + ".weight", {sizes_.state}, Storage::kVector);
        add(name + ".bias", {sizes_.state}, Storage::kVector);
    }
    void linear(const std::string& name, std::int64_t out, std::int64_t in, bool bias = true) {
        add(name + ".weight", {out, in}, Storage::kMatrix);
        if (bias) add(name + ".bias", {out}, Storage::kVector);
    }
    void attention(const std::string& name) {
        const std::int64_t n = sizes_.state;
        norm(name + "_ln");
        linear(name + ".query", n, n);
        linear(name + ".key", n, n, false);
        linear(name + ".value", n, n);
        linear(name + ".out", n, n);
    }
    void block(const std::string& name, bool decoder) {
        attention(name + ".attn");
        if (decoder) attention(name + ".cross_attn");
        norm(name + ".mlp_ln");
        linear(name + ".mlp.0", 4 * sizes_.state, sizes_.state);
        linear(name + ".mlp.2", sizes_.state, 4 * sizes_.state);
    }

    const Parameters& sizes_;
    std::vector<Expected> tensors_;
};

/// ggml's number for a file whose matrices are of this type.
std::optional<std::int32_t> file_type_of(TensorType type) {
    static constexpr std::array kTypes{
        std::pair{TensorType::kF32, 0},  std::pair{TensorType::kF16, 1},
        std::pair{TensorType::kQ4_0, 2}, std::pair{TensorType::kQ4_1, 3},
        std::pair{TensorType::kQ8_0, 7}, std::pair{TensorType::kQ5_0, 8},
        std::pair{TensorType::kQ5_1, 9}, std::pair{TensorType::kQ2K, 10},
        std::pair{TensorType::kQ3K, 11}, std::pair{TensorType::kQ4K, 12},
        std::pair{TensorType::kQ5K, 13}, std::pair{TensorType::kQ6K, 14},
    };
    const auto found = std::ranges::find(kTypes, type, [](const auto& each) { return each.first; });
    if (found == kTypes.end()) return std::nullopt;
    return found->second;
}

}  // namespace

bool Parameters::multilingual() const noexcept { return vocabulary >= kMultilingualVocabulary; }

std::int64_t Parameters::languages() const noexcept {
    return multilingual() ? vocabulary - kMultilingualVocabulary + 99 : 1;
}

bool Parameters::without_times() const noexcept {
    return text_layers == 2 && vocabulary != kLargestVocabulary;
}

std::int32_t Parameters::end_token() const noexcept { return multilingual() ? 50257 : 50256; }

Checkpoint::Checkpoint(const TensorSource& source) : source_(source) {
    read_parameters();
    read_tokens();
    check_tensors();
}

void Checkpoint::read_parameters() {
    const auto within = [&](const char* key, std::int64_t least, std::int64_t most) {
        const std::int64_t value = source_.integer(key);
        if (value < least || value > most) {
            throw Error(ErrorCode::kModelFileInvalid,
                        source_.description() + ": " + key + " is " + std::to_string(value) +
                            ", expected " + std::to_string(least) +
                            (least == most ? "" : " to " + std::to_string(most)));
        }
        return value;
    };
    parameters_.vocabulary = within("whisper.vocab_size", kEnglishVocabulary, kLargestVocabulary);
    within("whisper.audio_context", kAudioContext, kAudioContext);
    within("whisper.text_context", kTextContext, kTextContext);
    parameters_.audio_heads = within("whisper.audio_heads", 1, kMostHeads);
    parameters_.state = parameters_.audio_heads * kHeadWidth;
    within("whisper.audio_state", parameters_.state, parameters_.state);
    within("whisper.text_state", parameters_.state, parameters_.state);
    parameters_.text_heads =
        within("whisper.text_heads", parameters_.audio_heads, parameters_.audio_heads);
    parameters_.audio_layers = within("whisper.audio_layers", 1, kMostLayers);
    parameters_.text_layers = within("whisper.text_layers", 1, kMostLayers);
    parameters_.mel_bins = within("whisper.mel_bins", 80, 128);
    if (parameters_.mel_bins != 80) within("whisper.mel_bins", 128, 128);
}

void Checkpoint::read_tokens() {
    tokens_ = source_.strings(kGgmlBinTokens);
    const auto refuse = [&](const std::string& what) {
        throw Error(ErrorCode::kModelFileInvalid, source_.description() + ": " + what);
    };
    // whisper.cpp adds the tokens that are missing, which are special ones.
    const auto fewest = static_cast<std::size_t>(parameters_.end_token());
    if (tokens_.size() < fewest ||
        tokens_.size() > static_cast<std::size_t>(parameters_.vocabulary)) {
        refuse("a vocabulary of " + std::to_string(tokens_.size()) + " tokens");
    }
    if (std::ranges::any_of(tokens_, [](const auto& t) { return t.size() > kMostTokenBytes; })) {
        refuse("a token of more than " + std::to_string(kMostTokenBytes) + " bytes");
    }
    if (std::ranges::find(tokens_, " ") == tokens_.end()) refuse("the vocabulary has no space");
}

void Checkpoint::check_tensors() {
    const auto refuse = [&](const std::string& what) {
        throw Error(ErrorCode::kModelFileInvalid, source_.description() + ": " + what);
    };
    const auto require = [&](const std::string& name, TensorType found, TensorType wanted) {
        if (found == wanted) return;
        refuse(name + " is " + std::string(tensor_type_name(found)) + ", expected " +
               std::string(tensor_type_name(wanted)));
    };
    const std::array<std::int64_t, 2> filters{parameters_.mel_bins, kMelFrequencies};
    require(std::string(kGgmlBinMelFilters), source_.expect(kGgmlBinMelFilters, filters).type,
            TensorType::kF32);

    const Layout layout(parameters_);
    constexpr const char* kAnyMatrix = "decoder.token_embedding.weight";
    const auto embedding = source_.find(kAnyMatrix);
    if (!embedding) refuse(std::string(kAnyMatrix) + " is missing");
    const TensorType matrix = embedding->type;
    const auto file_type = file_type_of(matrix);
    // The thousands of the file's number are the version of the quantization.
    if (!file_type || source_.integer("whisper.file_type") % 1000 != *file_type) {
        refuse("its file type is not that of its matrices");
    }
    file_type_ = *file_type;
    for (const Expected& expected : layout.tensors()) {
        const TensorInfo found = source_.expect(expected.name, expected.shape);
        const TensorType half = matrix == TensorType::kF32 ? TensorType::kF32 : TensorType::kF16;
        require(expected.name, found.type,
                expected.storage == Storage::kMatrix        ? matrix
                : expected.storage == Storage::kConvolution ? half
                                                            : TensorType::kF32);
        tensors_.push_back(expected.name);
        weight_bytes_ += found.bytes;
    }
    if (source_.names().size() != tensors_.size() + 1) refuse("it has tensors that no model has");
}

void Checkpoint::check_numbers() const {
    const auto check = [&](std::string_view name) {
        if (!all_finite(source_.find(name)->type, source_.stored(name).bytes)) {
            throw Error(ErrorCode::kModelFileInvalid, source_.description() + ": " +
                                                          std::string(name) +
                                                          " holds a number that is not finite");
        }
    };
    check(kGgmlBinMelFilters);
    for (const std::string& name : tensors_) check(name);
}

}  // namespace wavepool::whisper
