#include "framework/tensors/tensor_views.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "framework/error.h"

namespace wavepool {
namespace {

/// The part that all views of one source share.
class View : public TensorSource {
  public:
    explicit View(std::shared_ptr<const TensorSource> source) : source_(std::move(source)) {}

    [[nodiscard]] std::string description() const override { return source_->description(); }
    [[nodiscard]] bool synchronized() const noexcept override { return source_->synchronized(); }
    [[nodiscard]] std::optional<MetadataValue> metadata(std::string_view key) const override {
        return source_->metadata(key);
    }
    void release_storage() const override { source_->release_storage(); }

  protected:
    [[nodiscard]] const TensorSource& source() const noexcept { return *source_; }

  private:
    std::shared_ptr<const TensorSource> source_;
};

class PrefixView final : public View {
  public:
    PrefixView(std::shared_ptr<const TensorSource> source, std::string prefix)
        : View(std::move(source)), prefix_(std::move(prefix)) {}

    [[nodiscard]] std::vector<std::string> names() const override {
        std::vector<std::string> names;
        for (const std::string& name : source().names()) {
            if (name.starts_with(prefix_) && name.size() > prefix_.size()) {
                names.push_back(name.substr(prefix_.size()));
            }
        }
        return names;
    }
    [[nodiscard]] std::optional<TensorInfo> find(std::string_view name) const override {
        return source().find(full(name));
    }
    [[nodiscard]] StoredBytes stored(std::string_view name) const override {
        return source().stored(full(name));
    }

  private:
    [[nodiscard]] std::string full(std::string_view name) const {
        return prefix_ + std::string(name);
    }

    std::string prefix_;
};

/// The names of a weight and of its magnitude and direction in the source.
struct Fold {
    std::string name;
    std::string magnitude;
    std::string direction;
};

std::optional<Fold> fold_of(const std::string& magnitude) {
    constexpr std::string_view kOld = "_g";
    constexpr std::string_view kMiddle = "parametrizations.";
    constexpr std::string_view kNew = ".original0";
    if (magnitude.ends_with(kOld)) {
        const std::string name = magnitude.substr(0, magnitude.size() - kOld.size());
        return Fold{name, magnitude, name + "_v"};
    }
    const std::size_t middle = magnitude.rfind(kMiddle);
    if (!magnitude.ends_with(kNew) || middle == std::string::npos) return std::nullopt;
    const std::string stem = magnitude.substr(0, magnitude.size() - kNew.size());
    return Fold{stem.substr(0, middle) + stem.substr(middle + kMiddle.size()), magnitude,
                stem + ".original1"};
}

class FoldedView final : public View {
  public:
    explicit FoldedView(std::shared_ptr<const TensorSource> source) : View(std::move(source)) {
        for (const std::string& name : this->source().names()) {
            auto fold = fold_of(name);
            const auto direction = fold ? this->source().find(fold->direction) : std::nullopt;
            if (!direction) continue;
            add(*std::move(fold), *direction);
        }
    }

    [[nodiscard]] std::vector<std::string> names() const override {
        std::vector<std::string> names;
        for (std::string& name : source().names()) {
            if (!hidden(name)) names.push_back(std::move(name));
        }
        for (const auto& [name, folded] : folds_) names.push_back(name);
        std::ranges::sort(names);
        return names;
    }
    [[nodiscard]] std::optional<TensorInfo> find(std::string_view name) const override {
        const auto found = folds_.find(name);
        if (found != folds_.end()) return found->second.info;
        if (hidden(name)) return std::nullopt;
        return source().find(name);
    }
    [[nodiscard]] StoredBytes stored(std::string_view name) const override {
        const auto found = folds_.find(name);
        if (found != folds_.end()) return fold(found->second);
        if (hidden(name)) invalid(std::string(name) + " is missing");
        return source().stored(name);
    }

  private:
    struct Folded {
        Fold names;
        TensorInfo info;
        std::vector<std::int64_t> magnitude_shape;
    };

    void add(Fold fold, const TensorInfo& direction) {
        const TensorInfo magnitude = *source().find(fold.magnitude);
        const bool fits = !direction.shape.empty() && !magnitude.shape.empty() &&
                          magnitude.shape.front() == direction.shape.front() &&
                          magnitude.elements == static_cast<std::size_t>(direction.shape.front());
        if (!fits) {
            invalid(fold.magnitude + " " + shape_text(magnitude.shape) + " does not belong to " +
                    fold.direction + " " + shape_text(direction.shape));
        }
        if (source().find(fold.name)) invalid(fold.name + " is there folded and unfolded");
        TensorInfo info{TensorType::kF32, direction.shape, direction.elements,
                        direction.elements * sizeof(float)};
        hidden_.insert({fold.magnitude, fold.direction});
        std::string name = fold.name;
        folds_.emplace(std::move(name), Folded{std::move(fold), std::move(info), magnitude.shape});
    }

    [[nodiscard]] bool hidden(std::string_view name) const {
        return hidden_.find(name) != hidden_.end();
    }

    [[nodiscard]] StoredBytes fold(const Folded& folded) const {
        const auto magnitude = source().f32(folded.names.magnitude, folded.magnitude_shape);
        auto weight = std::make_shared<std::vector<float>>(
            source().f32(folded.names.direction, folded.info.shape));
        const std::size_t row = weight->size() / magnitude.size();
        for (std::size_t i = 0; i < magnitude.size(); ++i) {
            const std::span values(weight->data() + i * row, row);
            double squares = 0;
            for (const float value : values) squares += double{value} * value;
            // A direction of zeros gives numbers that are not finite, which reading refuses.
            const double scale = magnitude[i] / std::sqrt(squares);
            for (float& value : values) value = static_cast<float>(scale * value);
        }
        return {std::as_bytes(std::span(*weight)), weight};
    }

    std::map<std::string, Folded, std::less<>> folds_;
    std::set<std::string, std::less<>> hidden_;
};

class CompositeView final : public TensorSource {
  public:
    explicit CompositeView(std::vector<CompositePart> parts) {
        if (parts.empty()) throw Error(ErrorCode::kInvalidRequest, "a composite of no sources");
        for (CompositePart& part : parts) {
            for (std::string& name : part.names) {
                if (!part.source->find(name)) refuse(*part.source, name + " is missing");
                const auto [found, added] = owners_.emplace(std::move(name), sources_.size());
                if (!added) refuse(*part.source, found->first + " is in another file too");
            }
            sources_.push_back(std::move(part.source));
        }
    }

    [[nodiscard]] std::string description() const override {
        const std::size_t others = sources_.size() - 1;
        std::string text = sources_.front()->description();
        if (others > 0) text += " and " + std::to_string(others) + " more";
        return text;
    }
    [[nodiscard]] bool synchronized() const noexcept override {
        return std::ranges::all_of(sources_, [](const auto& s) { return s->synchronized(); });
    }
    [[nodiscard]] std::vector<std::string> names() const override {
        std::vector<std::string> names;
        for (const auto& [name, owner] : owners_) names.push_back(name);
        return names;
    }
    [[nodiscard]] std::optional<TensorInfo> find(std::string_view name) const override {
        const auto found = owners_.find(name);
        if (found == owners_.end()) return std::nullopt;
        return sources_[found->second]->find(name);
    }
    [[nodiscard]] std::optional<MetadataValue> metadata(std::string_view key) const override {
        for (const auto& source : sources_) {
            if (auto value = source->metadata(key)) return value;
        }
        return std::nullopt;
    }
    [[nodiscard]] StoredBytes stored(std::string_view name) const override {
        const auto found = owners_.find(name);
        if (found == owners_.end()) invalid(std::string(name) + " is missing");
        return sources_[found->second]->stored(name);
    }
    void release_storage() const override {
        for (const auto& source : sources_) source->release_storage();
    }

  private:
    [[noreturn]] static void refuse(const TensorSource& source, const std::string& what) {
        throw Error(ErrorCode::kModelFileInvalid, source.description() + ": " + what);
    }

    std::vector<std::shared_ptr<const TensorSource>> sources_;
    std::map<std::string, std::size_t, std::less<>> owners_;
};

}  // namespace

std::shared_ptr<const TensorSource> make_prefix_view(std::shared_ptr<const TensorSource> source,
                                                     std::string prefix) {
    return std::make_shared<const PrefixView>(std::move(source), std::move(prefix));
}

std::shared_ptr<const TensorSource> make_folded_view(std::shared_ptr<const TensorSource> source) {
    return std::make_shared<const FoldedView>(std::move(source));
}

std::shared_ptr<const TensorSource> make_composite_view(std::vector<CompositePart> parts) {
    return std::make_shared<const CompositeView>(std::move(parts));
}

std::shared_ptr<const TensorSource> make_composite_view(
    std::vector<std::shared_ptr<const TensorSource>> sources) {
    std::vector<CompositePart> parts;
    for (auto& source : sources) {
        std::vector<std::string> names = source->names();
        parts.push_back({std::move(source), std::move(names)});
    }
    return make_composite_view(std::move(parts));
}

}  // namespace wavepool
