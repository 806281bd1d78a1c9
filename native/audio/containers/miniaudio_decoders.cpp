#include "audio/containers/miniaudio_decoders.h"

#include <utility>

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
struct Mp3FrameDecoder::State {
    ma_dr_mp3dec decoder{};
};

Mp3FrameDecoder::Mp3FrameDecoder() : state_(std::make_unique<State>()) {
    ma_dr_mp3dec_init(&state_->decoder);
}

Mp3FrameDecoder::~Mp3FrameDecoder() = default;

std::size_t Mp3FrameDecoder::decode(std::span<const std::uint8_t> frame,
                                    std::span<float, kMaxMp3FrameSamples> interleaved) noexcept {
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
