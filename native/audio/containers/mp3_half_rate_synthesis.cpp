#include "audio/containers/mp3_half_rate_synthesis.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <utility>

namespace wavepool::audio {
namespace {

constexpr std::size_t kLong = 36;
constexpr std::size_t kShort = 12;
constexpr std::size_t kHop = kLong / 2;
constexpr std::size_t kShortHop = kShort / 2;
constexpr std::size_t kShortStart = 6;
constexpr std::size_t kShortBlocks = 3;
constexpr double kPi = std::numbers::pi;

using LongBlock = std::array<Lanes, kLong>;

// The inverse MDCT of `Size` points. Of its output, the first half is odd about its middle and the
// second is even: only the first half of each is computed.
template <std::size_t Size>
class InverseMdct {
  public:
    static constexpr std::size_t kInputs = Size / 2;
    static constexpr std::size_t kQuarter = Size / 4;

    InverseMdct() {
        for (std::size_t i = 0; i < kInputs; ++i)
            for (std::size_t k = 0; k < kInputs; ++k) {
                const std::size_t at = i < kQuarter ? i : i + kQuarter;
                const double angle = kPi / (2.0 * Size) *
                                     (2.0 * static_cast<double>(at) + 1 + Size / 2.0) *
                                     (2.0 * static_cast<double>(k) + 1);
                factors_[i][k] = static_cast<float>(std::cos(angle));
            }
    }

    // out[i] = window[i] * transformed[i]; the inputs lie `Stride` apart.
    template <std::size_t Stride>
    void operator()(const Lanes* in, const std::array<Lanes, Size>& window,
                    std::array<Lanes, Size>& out) const {
        for (std::size_t i = 0; i < kQuarter; ++i) {
            Lanes first{};
            Lanes second{};
            for (std::size_t k = 0; k < kInputs; ++k) {
                first += factors_[i][k] * in[k * Stride];
                second += factors_[i + kQuarter][k] * in[k * Stride];
            }
            out[i] = window[i] * first;
            out[kInputs - 1 - i] = -window[kInputs - 1 - i] * first;
            out[kInputs + i] = window[kInputs + i] * second;
            out[Size - 1 - i] = window[Size - 1 - i] * second;
        }
    }

  private:
    std::array<std::array<float, kInputs>, kInputs> factors_;
};

template <std::size_t Size>
double sine_window(std::size_t at) {
    return std::sin(kPi / Size * (static_cast<double>(at) + 0.5));
}

double long_window(int type, std::size_t at) {
    const bool edge_in_first_half = type == 3;
    const bool bent = (type == 1 && at >= kHop) || (edge_in_first_half && at < kHop);
    if (!bent) return sine_window<kLong>(at);
    // Counted from the outer end of the bent half: nothing, a short slope, all.
    const std::size_t from_end = edge_in_first_half ? at : kLong - 1 - at;
    if (from_end < kShortStart) return 0;
    if (from_end >= kShortStart + kShortHop) return 1;
    return sine_window<kShort>(from_end - kShortStart);
}

struct HybridTables {
    InverseMdct<kLong> long_mdct;
    InverseMdct<kShort> short_mdct;
    std::array<LongBlock, 4> long_windows;
    std::array<Lanes, kShort> short_window;
    // The polyphase filter expects every second sample of every second subband turned round.
    Lanes odd_signs;

    HybridTables() {
        for (std::size_t lane = 0; lane < kLanes; ++lane) odd_signs[lane] = lane % 2 == 0 ? 1 : -1;
        const Lanes ones = Lanes{} + 1.0F;
        for (std::size_t type = 0; type < long_windows.size(); ++type)
            for (std::size_t i = 0; i < kLong; ++i)
                long_windows[type][i] = static_cast<float>(long_window(static_cast<int>(type), i)) *
                                        (i % 2 == 0 ? ones : odd_signs);
        for (std::size_t i = 0; i < kShort; ++i)
            short_window[i] =
                static_cast<float>(sine_window<kShort>(i)) * (i % 2 == 0 ? ones : odd_signs);
    }
};

const HybridTables& hybrid_tables() {
    static const HybridTables tables;
    return tables;
}

void short_blocks(const Lanes* lines, LongBlock& out) {
    const HybridTables& tables = hybrid_tables();
    out.fill(Lanes{});
    std::array<Lanes, kShort> block;
    for (std::size_t w = 0; w < kShortBlocks; ++w) {
        tables.short_mdct.operator()<kShortBlocks>(lines + w, tables.short_window, block);
        for (std::size_t i = 0; i < kShort; ++i) out[kShortStart + w * kShortHop + i] += block[i];
    }
}

void long_block(const Lanes* lines, int type, LongBlock& out) {
    const HybridTables& tables = hybrid_tables();
    tables.long_mdct.operator()<1>(lines, tables.long_windows[static_cast<std::size_t>(type)], out);
}

// The slots that are filtered at once share the loads of the factors.
constexpr std::size_t kSlotsAtOnce = 6;
constexpr std::size_t kWindowedAtOnce = 3;
static_assert(Mp3HalfRateSynthesis::kLinesPerSubband % kSlotsAtOnce == 0);
static_assert(Mp3HalfRateSynthesis::kLinesPerSubband % kWindowedAtOnce == 0);

// "V" of a slot for the samples of a phase, from what the matrix gives. Of the odd samples, the
// upper eight mirror the lower ones, with the sign turned in the first half. Of the even ones, the
// mirror is at the eighth, which is zero in the first half; in the second, the matrix gives it in
// the place of the one before all, which is the first half's with the sign turned.
void unfold(int phase, const Lanes& first, const Lanes& second, float* out) {
    const Lanes turned = -first;
    if (phase == 1) {
        store(first, out);
        store(shuffled<7, 6, 5, 4, 3, 2, 1, 0>(turned, turned), out + kLanes);
        store(second, out + 2 * kLanes);
        store(shuffled<7, 6, 5, 4, 3, 2, 1, 0>(second, second), out + 3 * kLanes);
        return;
    }
    store(first, out);
    store(shuffled<8, 7, 6, 5, 4, 3, 2, 1>(turned, Lanes{}), out + kLanes);
    store(shuffled<8, 1, 2, 3, 4, 5, 6, 7>(second, turned), out + 2 * kLanes);
    store(shuffled<0, 7, 6, 5, 4, 3, 2, 1>(second, second), out + 3 * kLanes);
}

}  // namespace

Mp3HalfRateSynthesis::Tables::Tables(std::span<const float, kWindowPoints> window, int phase)
    : phase_(phase) {
    const auto sample_of = [phase](std::size_t m) {
        return 2 * m + static_cast<std::size_t>(phase);
    };
    for (std::size_t k = 0; k < kSubbands; ++k) {
        const auto factor = [k](std::size_t row) {
            return static_cast<float>(
                std::cos(kPi / 64 * static_cast<double>((16 + row) * (2 * k + 1))));
        };
        for (std::size_t m = 0; m < kLanes; ++m) {
            matrix_[k][m] = factor(sample_of(m));
            matrix_[k][kLanes + m] = factor(32 + sample_of(phase == 0 && m == 0 ? kLanes : m));
        }
    }
    for (std::size_t tap = 0; tap < kTaps; ++tap)
        for (std::size_t m = 0; m < kSubbands; ++m) {
            even_window_[tap][m] = window[64 * tap + sample_of(m)];
            odd_window_[tap][m] = window[64 * tap + 32 + sample_of(m)];
        }
}

Mp3HalfRateSynthesis::Mp3HalfRateSynthesis(std::shared_ptr<const Tables> tables)
    : tables_(std::move(tables)) {}

void Mp3HalfRateSynthesis::forget() noexcept {
    overlap_ = {};
    history_ = {};
}

void Mp3HalfRateSynthesis::add_granule(std::span<const float, kLines> lines, const Blocks& blocks,
                                       std::span<float, kSamples> out) noexcept {
    Slots slots;
    hybrid(lines, blocks, slots);
    polyphase(slots, out);
}

// Eight subbands at once, one in each lane.
void Mp3HalfRateSynthesis::hybrid(std::span<const float, kLines> lines, const Blocks& blocks,
                                  Slots& slots) noexcept {
    for (std::size_t group = 0; group < kGroups; ++group) {
        const float* in = lines.data() + group * kLanes * kLinesPerSubband;
        std::array<Lanes, kLinesPerSubband> columns;
        for (std::size_t k = 0; k < kLinesPerSubband; ++k)
            for (std::size_t lane = 0; lane < kLanes; ++lane)
                columns[k][lane] = in[lane * kLinesPerSubband + k];

        LongBlock block;
        if (blocks.type == Blocks::kShort)
            short_blocks(columns.data(), block);
        else
            long_block(columns.data(), blocks.type, block);
        const auto normal = static_cast<std::size_t>(blocks.normal_subbands);
        if (group == 0 && normal > 0) {
            LongBlock lowest;
            long_block(columns.data(), 0, lowest);
            for (std::size_t i = 0; i < kLong; ++i)
                for (std::size_t lane = 0; lane < normal; ++lane) block[i][lane] = lowest[i][lane];
        }

        for (std::size_t i = 0; i < kHop; ++i) {
            slots[i][group] = block[i] + overlap_[group][i];
            overlap_[group][i] = block[kHop + i];
        }
    }
}

void Mp3HalfRateSynthesis::polyphase(const Slots& slots, std::span<float, kSamples> out) noexcept {
    std::array<std::array<float, kSubbands>, kSlotsAtOnce> subbands;
    for (std::size_t slot = 0; slot < kLinesPerSubband; slot += kSlotsAtOnce) {
        std::memcpy(subbands.data(), &slots[slot], sizeof subbands);
        std::array<std::array<Lanes, 2>, kSlotsAtOnce> sums{};
        for (std::size_t k = 0; k < kSubbands; ++k) {
            const Lanes first = load(tables_->matrix_[k].data());
            const Lanes second = load(tables_->matrix_[k].data() + kLanes);
            for (std::size_t s = 0; s < kSlotsAtOnce; ++s) {
                sums[s][0] += subbands[s][k] * first;
                sums[s][1] += subbands[s][k] * second;
            }
        }
        for (std::size_t s = 0; s < kSlotsAtOnce; ++s)
            unfold(tables_->phase_, sums[s][0], sums[s][1], history_[kPastSlots + slot + s].data());
    }

    for (std::size_t slot = 0; slot < kLinesPerSubband; slot += kWindowedAtOnce) {
        std::array<std::array<Lanes, kGroups>, kWindowedAtOnce> sums{};
        for (std::size_t tap = 0; tap < Tables::kTaps; ++tap)
            for (std::size_t group = 0; group < kGroups; ++group) {
                const Lanes even = load(&tables_->even_window_[tap][group * kLanes]);
                const Lanes odd = load(&tables_->odd_window_[tap][group * kLanes]);
                for (std::size_t s = 0; s < kWindowedAtOnce; ++s) {
                    const auto* newest = &history_[kPastSlots + slot + s - 2 * tap];
                    sums[s][group] += even * load(&(*newest)[group * kLanes]);
                    sums[s][group] += odd * load(&(*(newest - 1))[kSubbands + group * kLanes]);
                }
            }
        for (std::size_t s = 0; s < kWindowedAtOnce; ++s)
            for (std::size_t group = 0; group < kGroups; ++group)
                store(sums[s][group], &out[(slot + s) * kSubbands + group * kLanes]);
    }
    std::copy(history_.end() - kPastSlots, history_.end(), history_.begin());
}

}  // namespace wavepool::audio
