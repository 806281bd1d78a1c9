// whisper.cpp is compiled here, once, so that what its C interface hides can be reached: memory
// that a request must not find again, the backend's threads and abort callback, sizes, attention.
#include "whisper.cpp"

#include "models/whisper/library/library.h"

namespace wavepool::whisper::library {
namespace {

/// whisper.cpp and ggml write to stderr unless told otherwise. Before any thread can log.
[[maybe_unused]] const bool kSilenced = [] {
    whisper_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
    return true;
}();

constexpr int kPaddedTo = 256;  // frames: what whisper.cpp pads caches of flash attention to

int frames_of(const whisper_context& context, const whisper_state& state) {
    return state.exp_n_audio_ctx > 0 ? state.exp_n_audio_ctx : context.model.hparams.n_audio_ctx;
}

/// Flash attention runs without a mask over rows that no frame has written: they must be zero.
void clear_padding(const whisper_kv_cache& cache, int frames, int layers, int width) {
    const int padded = GGML_PAD(frames, kPaddedTo);
    for (ggml_tensor* tensor : {cache.k, cache.v}) {
        const std::size_t row = ggml_element_size(tensor) * static_cast<std::size_t>(width);
        for (int layer = 0; layer < layers; ++layer) {
            const auto first = static_cast<std::size_t>(layer) * padded + frames;
            ggml_backend_tensor_memset(tensor, 0, first * row, (padded - frames) * row);
        }
    }
}

void clear_all_padding(const whisper_context& context, whisper_state& state) {
    const whisper_hparams& sizes = context.model.hparams;
    const int frames = frames_of(context, state);
    clear_padding(state.kv_cross, frames, sizes.n_text_layer, sizes.n_text_state);
    clear_padding(state.kv_pad, frames, 1, sizes.n_audio_state);
}

bool make_caches(const whisper_context& context, whisper_state& state) {
    const whisper_hparams& sizes = context.model.hparams;
    ggml_backend_t backend = state.backends.front();
    const auto padded = [](int count) { return GGML_PAD(count, kPaddedTo); };
    state.kv_self_n_dec = 1;
    return whisper_kv_cache_init(state.kv_self, backend, context.itype, sizes.n_text_state,
                                 sizes.n_text_layer, padded(sizes.n_text_ctx)) &&
           whisper_kv_cache_init(state.kv_cross, backend, context.itype, sizes.n_text_state,
                                 sizes.n_text_layer, padded(sizes.n_audio_ctx)) &&
           whisper_kv_cache_init(state.kv_pad, backend, context.itype, sizes.n_audio_state, 1,
                                 padded(sizes.n_audio_ctx));
}

bool reserve_graphs(whisper_context& context, whisper_state& state) {
    const auto reserve = [&](whisper_sched& scheduler, auto build) {
        return whisper_sched_graph_init(scheduler, state.backends, build);
    };
    constexpr int kPromptTokens = 5;  // start, language, task, no timestamps, one more
    whisper_batch_prep_legacy(state.batch, nullptr, kPromptTokens, 0, 0);
    return reserve(state.sched_conv, [&] { return whisper_build_graph_conv(context, state); }) &&
           reserve(state.sched_encode,
                   [&] { return whisper_build_graph_encoder(context, state); }) &&
           reserve(state.sched_cross, [&] { return whisper_build_graph_cross(context, state); }) &&
           reserve(state.sched_decode, [&] {
               return whisper_build_graph_decoder(context, state, state.batch, false, true);
           });
}

/// The context as the code that keeps attention wants it: the same tensors, without flash
/// attention.
whisper_context aligning(const whisper_context& context, std::span<const whisper_ahead> heads) {
    whisper_context aligner;
    aligner.wtype = context.wtype;
    aligner.itype = context.itype;
    aligner.model = context.model;
    aligner.params = context.params;
    aligner.params.flash_attn = false;
    aligner.params.dtw_token_timestamps = true;
    aligner.params.dtw_aheads_preset = WHISPER_AHEADS_CUSTOM;
    aligner.params.dtw_aheads = {heads.size(), heads.data()};
    return aligner;
}

class HeadMasks {
  public:
    HeadMasks(const whisper_context& aligner, whisper_state& state)
        : masks_(state.aheads_masks),
          made_(aheads_masks_init(aligner.params, aligner.model.hparams, masks_,
                                  state.backends.front())) {}
    ~HeadMasks() {
        aheads_masks_free(masks_);
        masks_ = {};
    }
    HeadMasks(const HeadMasks&) = delete;
    HeadMasks& operator=(const HeadMasks&) = delete;

    [[nodiscard]] bool made() const { return made_; }

  private:
    whisper_aheads_masks& masks_;
    bool made_;
};

bool compute(whisper_sched& scheduler, ggml_cgraph* graph, int threads) {
    return ggml_graph_compute_helper(scheduler.sched, graph, threads);
}

/// The inputs of the decoder when it reads all tokens at once.
struct DecoderInputs {
    explicit DecoderInputs(std::span<const whisper_token> read)
        : tokens(read), positions(read.size()), mask(read.size() * read.size(), 0.0F) {
        for (std::size_t row = 0; row < read.size(); ++row) {
            positions[row] = static_cast<std::int32_t>(row);
            for (std::size_t column = row + 1; column < read.size(); ++column) {
                mask[row * read.size() + column] = -INFINITY;
            }
        }
    }
    void set(ggml_cgraph* graph) const {
        ggml_backend_tensor_set(ggml_graph_get_tensor(graph, "embd"), tokens.data(), 0,
                                tokens.size_bytes());
        ggml_backend_tensor_set(ggml_graph_get_tensor(graph, "position"), positions.data(), 0,
                                positions.size() * sizeof(std::int32_t));
        ggml_backend_tensor_set(ggml_graph_get_tensor(graph, "KQ_mask"), mask.data(), 0,
                                mask.size() * sizeof(float));
    }

    std::span<const whisper_token> tokens;
    std::vector<std::int32_t> positions;
    std::vector<float> mask;
};

/// The nodes of `whole` up to `last`, in their order: the rest of the decoder is not wanted.
ggml_cgraph* first_nodes(ggml_context* memory, ggml_cgraph* whole, ggml_tensor* last) {
    ggml_cgraph* graph = ggml_new_graph_custom(memory, WHISPER_MAX_NODES, false);
    for (int i = 0; i < ggml_graph_n_nodes(whole); ++i) {
        ggml_build_forward_expand(graph, ggml_graph_node(whole, i));
        if (ggml_graph_node(whole, i) == last) break;
    }
    return graph;
}

}  // namespace

ContextPtr load(whisper_model_loader& loader) {
    whisper_context_params params = whisper_context_default_params();
    params.use_gpu = false;
    params.flash_attn = true;
    return ContextPtr(whisper_init_with_params_no_state(&loader, params));
}

StatePtr make_state(whisper_context& context) {
    // Value-initialized: freeing a state whose members are not all made must find null.
    StatePtr state(new whisper_state());
    if (ggml_backend_t backend = ggml_backend_cpu_init()) state->backends.push_back(backend);
    if (state->backends.empty() || !make_caches(context, *state)) return nullptr;
    state->batch = whisper_batch_init(context.model.hparams.n_text_ctx, WHISPER_MAX_DECODERS);
    whisper_decoder& decoder = state->decoders[0];
    decoder.sequence.tokens.reserve(context.model.hparams.n_text_ctx);
    for (std::vector<float>* each : {&decoder.probs, &decoder.logits, &decoder.logprobs}) {
        each->reserve(context.vocab.n_vocab);
    }
    if (!reserve_graphs(context, *state)) return nullptr;
    return state;
}

std::size_t bytes(const whisper_state& state) {
    std::size_t sum = sizeof(state);
    for (const whisper_kv_cache* cache : {&state.kv_self, &state.kv_cross, &state.kv_pad}) {
        sum += ggml_backend_buffer_get_size(cache->buffer);
        sum += cache->cells.capacity() * sizeof(whisper_kv_cell);
    }
    for (const whisper_sched* scheduler :
         {&state.sched_conv, &state.sched_encode, &state.sched_cross, &state.sched_decode}) {
        sum += whisper_sched_size(const_cast<whisper_sched&>(*scheduler));
    }
    const whisper_decoder& decoder = state.decoders[0];
    for (const std::vector<float>* each :
         {&decoder.probs, &decoder.logits, &decoder.logprobs, &state.mel.data, &state.inp_mel,
          &state.inp_mask, &state.logits}) {
        sum += each->capacity() * sizeof(float);
    }
    return sum;
}

void use(whisper_state& state, ggml_threadpool_t pool, ggml_abort_callback abort,
         void* abort_data) {
    ggml_backend_cpu_set_threadpool(state.backends.front(), pool);
    ggml_backend_cpu_set_abort_callback(state.backends.front(), abort, abort_data);
}

void restart(const whisper_context& context, whisper_state& state, int audio_frames) {
    state.exp_n_audio_ctx = audio_frames;
    // A request that ended in an exception may have left a graph in its scheduler.
    for (whisper_sched* each :
         {&state.sched_conv, &state.sched_encode, &state.sched_cross, &state.sched_decode}) {
        ggml_backend_sched_reset(each->sched);
    }
    clear_all_padding(context, state);
    state.result_all.clear();
    state.lang_id = 0;
    state.no_speech_prob = 0;
    state.n_fail_p = 0;
    whisper_decoder& decoder = state.decoders[0];
    decoder.rng = std::mt19937(0);
    decoder.completed = false;
    decoder.sequence = {};
    decoder.sequence.tokens.reserve(context.model.hparams.n_text_ctx);
}

WindowReport report(const whisper_state& state) {
    const whisper_decoder& decoder = state.decoders[0];
    return {.failed_temperatures = state.n_fail_p,
            .completed = decoder.completed,
            .average_log_probability = decoder.sequence.avg_logprobs,
            .no_speech_probability = state.no_speech_prob};
}

int detect_language(whisper_context& context, whisper_state& state, std::span<const float> samples,
                    int languages, int threads) {
    const auto count = static_cast<int>(samples.size());
    const whisper_token start = whisper_token_sot(&context);
    whisper_kv_cache_clear(state.kv_self);
    if (whisper_pcm_to_mel_with_state(&context, &state, samples.data(), count, threads) != 0 ||
        whisper_encode_with_state(&context, &state, 0, threads) != 0 ||
        whisper_decode_with_state(&context, &state, &start, 1, 0, threads) != 0) {
        return -1;
    }
    int best = 0;
    for (int id = 1; id < languages; ++id) {
        const float* logits = state.logits.data();
        if (logits[whisper_token_lang(&context, id)] > logits[whisper_token_lang(&context, best)]) {
            best = id;
        }
    }
    return best;
}

SpecialTokens special_tokens(whisper_context& context) {
    const whisper_vocab& vocab = context.vocab;
    SpecialTokens tokens{.end = vocab.token_eot,
                         .start = vocab.token_sot,
                         .first_language = whisper_token_lang(&context, 0),
                         .translate = vocab.token_translate,
                         .transcribe = vocab.token_transcribe,
                         .previous = vocab.token_prev,
                         .no_speech = vocab.token_nosp,
                         .first_time = vocab.token_beg,
                         .space = vocab.token_to_id.at(" "),
                         .suppressed = {}};
    for (whisper_token id = vocab.token_eot + 1; id < vocab.token_beg; ++id) {
        tokens.suppressed.push_back(id);
    }
    const auto suppress = [&](const std::string& text) {
        const auto found = vocab.token_to_id.find(text);
        if (found != vocab.token_to_id.end()) tokens.suppressed.push_back(found->second);
    };
    for (const std::string& text : non_speech_tokens) {
        suppress(text);
        suppress(" " + text);
    }
    suppress(" -");
    suppress(" '");
    return tokens;
}

std::vector<AlignmentHead> alignment_heads(const whisper_context& context) {
    const whisper_hparams& sizes = context.model.hparams;
    const bool multilingual = context.vocab.is_multilingual();
    const auto preset = [&] {
        switch (sizes.n_text_layer) {
            case 4:
                if (sizes.n_text_state == 1280) return WHISPER_AHEADS_LARGE_V3_TURBO;
                if (sizes.n_text_state != 384) return WHISPER_AHEADS_NONE;
                return multilingual ? WHISPER_AHEADS_TINY : WHISPER_AHEADS_TINY_EN;
            case 6:
                return multilingual ? WHISPER_AHEADS_BASE : WHISPER_AHEADS_BASE_EN;
            case 12:
                return multilingual ? WHISPER_AHEADS_SMALL : WHISPER_AHEADS_SMALL_EN;
            case 24:
                return multilingual ? WHISPER_AHEADS_MEDIUM : WHISPER_AHEADS_MEDIUM_EN;
            case 32:
                // The sizes of large-v1 are those of v2, which is the one in use.
                return sizes.n_vocab == 51866 ? WHISPER_AHEADS_LARGE_V3 : WHISPER_AHEADS_LARGE_V2;
            default:
                return WHISPER_AHEADS_NONE;
        }
    }();
    std::vector<AlignmentHead> heads;
    if (preset != WHISPER_AHEADS_NONE) {
        const whisper_aheads& known = g_aheads.at(preset);
        for (std::size_t i = 0; i < known.n_heads; ++i) {
            heads.push_back({known.heads[i].n_text_layer, known.heads[i].n_head});
        }
    }
    const bool fits = std::ranges::all_of(heads, [&](const AlignmentHead& each) {
        return each.layer < sizes.n_text_layer && each.head < sizes.n_text_head;
    });
    if (!heads.empty() && fits) return heads;
    heads.clear();
    for (int layer = sizes.n_text_layer / 2; layer < sizes.n_text_layer; ++layer) {
        for (int head = 0; head < sizes.n_text_head; ++head) heads.push_back({layer, head});
    }
    return heads;
}

bool attention(const whisper_context& context, whisper_state& state,
               std::span<const AlignmentHead> heads, std::span<const whisper_token> tokens,
               int threads, std::vector<float>& weights) {
    std::vector<whisper_ahead> chosen;
    for (const AlignmentHead& each : heads) chosen.push_back({each.layer, each.head});
    const DecoderInputs inputs(tokens);
    whisper_context aligner = aligning(context, chosen);
    const HeadMasks masks(aligner, state);
    if (!masks.made()) return false;

    // The caches change their layout here; the next window writes all of them again.
    ggml_cgraph* cross = whisper_build_graph_cross(aligner, state);
    if (!ggml_backend_sched_alloc_graph(state.sched_cross.sched, cross) ||
        !compute(state.sched_cross, cross, threads)) {
        return false;
    }
    whisper_kv_cache_clear(state.kv_self);
    state.kv_self.n = static_cast<std::uint32_t>(tokens.size());
    whisper_batch_prep_legacy(state.batch, tokens.data(), static_cast<int>(tokens.size()), 0, 0);
    state.aheads_cross_QKs = nullptr;
    ggml_cgraph* whole = whisper_build_graph_decoder(aligner, state, state.batch, true, false);
    ggml_tensor* result = state.aheads_cross_QKs;
    if (result == nullptr) return false;

    std::vector<std::uint8_t> memory(ggml_graph_overhead_custom(WHISPER_MAX_NODES, false));
    const ggml_context_ptr graphs{ggml_init({memory.size(), memory.data(), true})};
    if (!graphs) return false;
    ggml_cgraph* graph = first_nodes(graphs.get(), whole, result);
    if (!ggml_backend_sched_alloc_graph(state.sched_decode.sched, graph)) return false;
    inputs.set(graph);
    if (!compute(state.sched_decode, graph, threads)) return false;

    const auto count = tokens.size();
    const auto frames = static_cast<std::size_t>(frames_of(context, state));
    std::vector<float> raw(count * frames * heads.size());
    ggml_backend_tensor_get(result, raw.data(), 0, raw.size() * sizeof(float));
    weights.resize(raw.size());
    for (std::size_t head = 0; head < heads.size(); ++head) {
        for (std::size_t token = 0; token < count; ++token) {
            for (std::size_t frame = 0; frame < frames; ++frame) {
                weights[(head * count + token) * frames + frame] =
                    raw[(head * frames + frame) * count + token];
            }
        }
    }
    clear_all_padding(context, state);
    return true;
}

}  // namespace wavepool::whisper::library
