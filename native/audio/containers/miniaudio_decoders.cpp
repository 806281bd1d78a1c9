#include "audio/containers/miniaudio_decoders.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>
#include <optional>
#include <utility>

#include "audio/containers/mp3_half_rate_synthesis.h"

// miniaudio's MP3 and FLAC decoders and as little else of it as it allows. They are visible only to
// the file with the implementation.
#define MA_NO_DEVICE_IO
#define MA_NO_THREADING
#define MA_NO_ENCODING
#define MA_NO_GENERATION
#define MA_NO_RESOURCE_MANAGER
#define MA_NO_NODE_GRAPH
#define MA_NO_ENGINE
#define MA_NO_RUNTIME_LINKING
#define MA_NO_WAV
#define MA_API static
#define MA_DR_FLAC_NO_OGG
#define MA_DR_MP3_FLOAT_OUTPUT
#define MINIAUDIO_IMPLEMENTATION
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#include "miniaudio.h"
#pragma GCC diagnostic pop

namespace wavepool::audio {

static_assert(kMaxMp3FrameSamples == MA_DR_MP3_MAX_SAMPLES_PER_FRAME);
static_assert(MA_VERSION_MAJOR == 0 && MA_VERSION_MINOR == 11,
              "HalfRateDecoder calls inner functions of miniaudio's MP3 decoder: compare them");

namespace {

using Synthesis = Mp3HalfRateSynthesis;

constexpr std::size_t kGranuleLines = 576;
constexpr std::size_t kBands = 32;
// Lines that are read: a little more than is promised, because the filters of the uppermost subband
// leave an alias in its upper half where the one above is missing.
constexpr int kKeptLines = 13 * Synthesis::kLinesPerSubband;

// The window of the decoder's own polyphase filter, from its answers to an impulse in each subband.
std::array<float, Synthesis::kWindowPoints> synthesis_window() {
    // What the decoder multiplies by are whole numbers of this.
    constexpr double kUnit = 1.0 / 32768;
    std::array<double, Synthesis::kWindowPoints> products{};
    std::array<double, Synthesis::kWindowPoints> squares{};
    const auto scratch = std::make_unique<ma_dr_mp3dec_scratch>();
    for (std::size_t band = 0; band < kBands; ++band) {
        std::array<float, 15 * 2 * kBands> past{};
        std::array<float, kGranuleLines> answer{};
        *scratch = {};
        scratch->grbuf[0][band * Synthesis::kLinesPerSubband] = 1;
        ma_dr_mp3d_synth_granule(past.data(), scratch->grbuf[0], Synthesis::kLinesPerSubband, 1,
                                 answer.data(), scratch->syn[0]);
        for (std::size_t i = 0; i < products.size(); ++i) {
            const auto steps = static_cast<double>((16 + i % 64) * (2 * band + 1));
            const double cosine = std::cos(std::numbers::pi / 64 * steps);
            products[i] += static_cast<double>(answer[i]) * cosine;
            squares[i] += cosine * cosine;
        }
    }
    std::array<float, Synthesis::kWindowPoints> window;
    for (std::size_t i = 0; i < window.size(); ++i)
        window[i] = static_cast<float>(
            squares[i] < 0.5 ? 0 : std::round(products[i] / squares[i] / kUnit) * kUnit);
    return window;
}

// Layer III down to the spectral lines by the decoder's own functions, from there on at half the
// rate.
class HalfRateDecoder {
  public:
    explicit HalfRateDecoder(int phase)
        : synthesis_{Synthesis(tables_of(phase)), Synthesis(tables_of(phase))} {}

    std::size_t decode(std::span<const std::uint8_t> frame, float* interleaved) noexcept {
        constexpr int kGranules = 2;
        const std::uint8_t* header = frame.data();
        std::memcpy(decoder_.header, header, sizeof decoder_.header);
        const int channels = MA_DR_MP3_HDR_IS_MONO(header) ? 1 : 2;
        ma_dr_mp3dec_scratch& scratch = decoder_.scratch;
        ma_dr_mp3_bs bits;
        ma_dr_mp3_bs_init(&bits, header + MA_DR_MP3_HDR_SIZE,
                          static_cast<int>(frame.size()) - MA_DR_MP3_HDR_SIZE);
        if (MA_DR_MP3_HDR_IS_CRC(header)) ma_dr_mp3_bs_get_bits(&bits, 16);
        const int main_data_begin = ma_dr_mp3_L3_read_side_info(&bits, scratch.gr_info, header);
        if (main_data_begin < 0 || bits.pos > bits.limit) {
            forget();
            return 0;
        }
        const bool complete =
            ma_dr_mp3_L3_restore_reservoir(&decoder_, &bits, &scratch, main_data_begin) != 0;
        const std::size_t samples = Synthesis::kSamples * static_cast<std::size_t>(channels);
        for (int granule = 0; complete && granule < kGranules; ++granule, interleaved += samples) {
            const ma_dr_mp3_L3_gr_info* infos = scratch.gr_info + granule * channels;
            read_lines(infos, channels);
            synthesize(infos, channels, interleaved);
        }
        ma_dr_mp3_L3_save_reservoir(&decoder_, &scratch);
        return complete ? kGranules * Synthesis::kSamples : 0;
    }

  private:
    // After so many granules of equal lines the channels' syntheses are in the same state: the
    // first makes the overlapping blocks the same, the second the history of the polyphase filter.
    static constexpr int kGranulesToBeAlike = 2;

    static std::shared_ptr<const Synthesis::Tables> tables_of(int phase) {
        static const std::array<float, Synthesis::kWindowPoints> window = synthesis_window();
        static const std::array<std::shared_ptr<const Synthesis::Tables>, 2> tables{
            std::make_shared<const Synthesis::Tables>(window, 0),
            std::make_shared<const Synthesis::Tables>(window, 1)};
        return tables[static_cast<std::size_t>(phase)];
    }

    void forget() noexcept {
        decoder_ = {};
        synthesis_[0].forget();
        alike_granules_ = kGranulesToBeAlike;
    }

    void read_lines(const ma_dr_mp3_L3_gr_info* infos, int channels) noexcept {
        ma_dr_mp3dec_scratch& scratch = decoder_.scratch;
        const bool joint = channels == 2;
        // Where the right channel ends decides which bands have intensities: its end must be seen.
        const bool intensity = joint && MA_DR_MP3_HDR_TEST_I_STEREO(decoder_.header) != 0;
        std::memset(scratch.grbuf, 0, sizeof scratch.grbuf);
        for (int ch = 0; ch < channels; ++ch) {
            const ma_dr_mp3_L3_gr_info& info = infos[ch];
            const int end = scratch.bs.pos + info.part_23_length;
            ma_dr_mp3_L3_decode_scalefactors(decoder_.header, scratch.ist_pos[ch], &scratch.bs,
                                             &info, scratch.scf, ch);
            if (intensity) {
                ma_dr_mp3_L3_huffman(scratch.grbuf[ch], &scratch.bs, &info, scratch.scf, end);
                continue;
            }
            BandTable bands;
            const ma_dr_mp3_L3_gr_info kept = without_upper_lines(info, bands);
            ma_dr_mp3_L3_huffman(scratch.grbuf[ch], &scratch.bs, &kept, scratch.scf, end);
        }
        if (intensity)
            ma_dr_mp3_L3_intensity_stereo(scratch.grbuf[0], scratch.ist_pos[1], infos,
                                          decoder_.header);
        else if (joint && MA_DR_MP3_HDR_IS_MS_STEREO(decoder_.header))
            ma_dr_mp3_L3_midside_stereo(scratch.grbuf[0], Synthesis::kLines);
    }

    using BandTable = std::array<ma_uint8, 40>;

    // The same granule with its scale factor bands, and so its lines, ended where no more are
    // needed. `bands` is what the result points to.
    static ma_dr_mp3_L3_gr_info without_upper_lines(const ma_dr_mp3_L3_gr_info& info,
                                                    BandTable& bands) noexcept {
        ma_dr_mp3_L3_gr_info kept = info;
        int lines = 0;
        std::size_t count = 0;
        while (lines < kKeptLines && info.sfbtab[count] != 0) {
            // The windows of short blocks take turns: all three, or none.
            const std::size_t step = count < info.n_long_sfb ? 1 : 3;
            for (const std::size_t end = count + step; count < end; ++count)
                lines += bands[count] = info.sfbtab[count];
        }
        bands[count] = 0;
        kept.sfbtab = bands.data();
        kept.big_values = static_cast<ma_uint16>(std::min<int>(info.big_values, lines / 2));
        return kept;
    }

    void synthesize(const ma_dr_mp3_L3_gr_info* infos, int channels, float* interleaved) noexcept {
        ma_dr_mp3dec_scratch& scratch = decoder_.scratch;
        // Equal channels, common in speech, cost one synthesis: the second one's is left where it
        // was, and takes over the first one's state when the channels part.
        const bool equal = channels == 1 || have_equal_lines(infos);
        const bool were_alike = alike_granules_ >= kGranulesToBeAlike;
        const bool alike = channels == 1 || (equal && were_alike);
        if (were_alike && !equal) synthesis_[1] = synthesis_[0];
        alike_granules_ = alike ? kGranulesToBeAlike : equal ? alike_granules_ + 1 : 0;

        std::array<std::array<float, Synthesis::kSamples>, 2> planes;
        for (int ch = 0; ch < (alike ? 1 : channels); ++ch) {
            const ma_dr_mp3_L3_gr_info& info = infos[ch];
            float* lines = scratch.grbuf[ch];
            const Synthesis::Blocks blocks{info.block_type, info.mixed_block_flag != 0 ? 2 : 0};
            int boundaries = static_cast<int>(Synthesis::kSubbands) - 1;
            if (info.n_short_sfb != 0) {
                boundaries = blocks.normal_subbands - 1;
                const auto normal_lines =
                    Synthesis::kLinesPerSubband * static_cast<std::size_t>(blocks.normal_subbands);
                ma_dr_mp3_L3_reorder(lines + normal_lines, scratch.syn[0],
                                     info.sfbtab + info.n_long_sfb);
            }
            ma_dr_mp3_L3_antialias(lines, boundaries);
            synthesis_[static_cast<std::size_t>(ch)].add_granule(
                std::span<const float, Synthesis::kLines>(lines, Synthesis::kLines), blocks,
                planes[static_cast<std::size_t>(ch)]);
        }
        if (channels == 1) {
            std::copy(planes[0].begin(), planes[0].end(), interleaved);
            return;
        }
        const auto& right = planes[alike ? 0 : 1];
        for (std::size_t i = 0; i < Synthesis::kSamples; ++i) {
            interleaved[2 * i] = planes[0][i];
            interleaved[2 * i + 1] = right[i];
        }
    }

    [[nodiscard]] bool have_equal_lines(const ma_dr_mp3_L3_gr_info* infos) const noexcept {
        return infos[0].block_type == infos[1].block_type &&
               infos[0].mixed_block_flag == infos[1].mixed_block_flag &&
               std::memcmp(decoder_.scratch.grbuf[0], decoder_.scratch.grbuf[1],
                           Synthesis::kLines * sizeof(float)) == 0;
    }

    ma_dr_mp3dec decoder_{};
    std::array<Synthesis, 2> synthesis_;
    // Since the channels last differed, at most kGranulesToBeAlike: then only the first one's
    // synthesis is kept up.
    int alike_granules_ = kGranulesToBeAlike;
};

}  // namespace

struct Mp3FrameDecoder::State {
    ma_dr_mp3dec decoder{};
    std::optional<HalfRateDecoder> halving;
};

Mp3FrameDecoder::Mp3FrameDecoder() : state_(std::make_unique<State>()) {
    ma_dr_mp3dec_init(&state_->decoder);
}

Mp3FrameDecoder Mp3FrameDecoder::halving(int phase) {
    Mp3FrameDecoder decoder;
    decoder.state_->halving.emplace(phase);
    return decoder;
}

Mp3FrameDecoder::~Mp3FrameDecoder() = default;
Mp3FrameDecoder::Mp3FrameDecoder(Mp3FrameDecoder&&) noexcept = default;
Mp3FrameDecoder& Mp3FrameDecoder::operator=(Mp3FrameDecoder&&) noexcept = default;

std::size_t Mp3FrameDecoder::decode(std::span<const std::uint8_t> frame,
                                    std::span<float, kMaxMp3FrameSamples> interleaved) noexcept {
    if (state_->halving) return state_->halving->decode(frame, interleaved.data());
    ma_dr_mp3dec_frame_info info{};
    const int samples = ma_dr_mp3dec_decode_frame(
        &state_->decoder, frame.data(), static_cast<int>(frame.size()), interleaved.data(), &info);
    return samples > 0 ? static_cast<std::size_t>(samples) : 0;
}

struct FlacStreamDecoder::Native {
    struct Close {
        void operator()(ma_dr_flac* decoder) const noexcept { ma_dr_flac_close(decoder); }
    };
    std::unique_ptr<ma_dr_flac, Close> stream;

    static std::size_t on_read(void* feed, void* out, std::size_t bytes) {
        return (*static_cast<Feed*>(feed))({static_cast<std::uint8_t*>(out), bytes});
    }
    // Only seeking, and metadata after the stream information, would need these.
    static ma_bool32 on_seek(void*, int, ma_dr_flac_seek_origin) { return MA_FALSE; }
    static ma_bool32 on_tell(void*, ma_int64*) { return MA_FALSE; }
};

FlacStreamDecoder::FlacStreamDecoder(Feed feed) : feed_(std::move(feed)) {
    ma_dr_flac* stream =
        ma_dr_flac_open(&Native::on_read, &Native::on_seek, &Native::on_tell, &feed_, nullptr);
    if (stream == nullptr) return;
    decoder_ = std::make_unique<Native>();
    decoder_->stream.reset(stream);
}

FlacStreamDecoder::~FlacStreamDecoder() = default;

int FlacStreamDecoder::sample_rate() const noexcept {
    return static_cast<int>(decoder_->stream->sampleRate);
}

int FlacStreamDecoder::channels() const noexcept { return decoder_->stream->channels; }

int FlacStreamDecoder::bits_per_sample() const noexcept { return decoder_->stream->bitsPerSample; }

std::size_t FlacStreamDecoder::read(std::span<float> interleaved) noexcept {
    const std::size_t frames = interleaved.size() / static_cast<std::size_t>(channels());
    return static_cast<std::size_t>(
        ma_dr_flac_read_pcm_frames_f32(decoder_->stream.get(), frames, interleaved.data()));
}

std::uint64_t FlacStreamDecoder::block_end() const noexcept {
    const ma_dr_flac_frame_header& block = decoder_->stream->currentFLACFrame.header;
    const std::uint64_t start =
        block.pcmFrameNumber != 0
            ? block.pcmFrameNumber
            : std::uint64_t{block.flacFrameNumber} * decoder_->stream->maxBlockSizeInPCMFrames;
    return start + block.blockSizeInPCMFrames;
}

}  // namespace wavepool::audio
