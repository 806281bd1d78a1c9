#pragma once

#include <compare>
#include <concepts>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <typeindex>
#include <utility>

#include "framework/error.h"

namespace wavepool {

/// Identifies weights: which part of the checkpoint they are, where they are, how they are stored.
struct WeightKey {
    std::string component;  ///< e.g. "decoder"
    std::string device;     ///< e.g. "cpu"
    std::string storage;    ///< e.g. "q8_0"

    auto operator<=>(const WeightKey&) const = default;
    [[nodiscard]] std::string text() const { return component + "/" + device + "/" + storage; }
};

/// The weights of one package, each loaded once for all its sessions. Keeps them alive; destroying
/// the cache releases them when their last user is gone. Holds immutable things only, never graphs
/// or caches of sessions. Any threads may use it at once: callers of one key wait for its factory,
/// callers of other keys do not. A factory must not ask for its own key.
class WeightCache {
  public:
    WeightCache() = default;
    WeightCache(const WeightCache&) = delete;
    WeightCache& operator=(const WeightCache&) = delete;

    /// The value of `key`, which `factory` (returning T) makes at the first call. Where a factory
    /// throws, nothing is kept and the next call tries again. Throws Error{kInternal} for a key
    /// whose value is of another type.
    template <typename T, std::invocable Factory>
    [[nodiscard]] std::shared_ptr<const T> get_or_load(const WeightKey& key, Factory&& factory) {
        return get_or_load_shared<T>(
            key, [&] { return std::make_shared<const T>(std::forward<Factory>(factory)()); });
    }

    /// Like get_or_load(), for a factory that returns a shared pointer, which is kept without a
    /// copy. Throws Error{kModelLoadFailed} when that pointer is null.
    template <typename T, std::invocable Factory>
    [[nodiscard]] std::shared_ptr<const T> get_or_load_shared(const WeightKey& key,
                                                              Factory&& factory) {
        const std::shared_ptr<Entry> entry = entry_of(key);
        const std::scoped_lock lock(entry->mutex);
        if (!entry->value) {
            std::shared_ptr<const T> value = std::forward<Factory>(factory)();
            if (!value) throw Error(ErrorCode::kModelLoadFailed, key.text() + ": no weights");
            entry->type = typeid(T);
            entry->value = std::move(value);
        } else if (entry->type != typeid(T)) {
            throw Error(ErrorCode::kInternal, key.text() + " holds weights of another type");
        }
        return std::static_pointer_cast<const T>(entry->value);
    }

  private:
    struct Entry {
        std::mutex mutex;
        // Protected by mutex, which is held while the factory runs.
        std::shared_ptr<const void> value;
        std::type_index type = typeid(void);
    };

    [[nodiscard]] std::shared_ptr<Entry> entry_of(const WeightKey& key) {
        const std::scoped_lock lock(mutex_);
        auto& entry = entries_[key];
        if (!entry) entry = std::make_shared<Entry>();
        return entry;
    }

    std::mutex mutex_;
    std::map<WeightKey, std::shared_ptr<Entry>> entries_;  // protected by mutex_
};

}  // namespace wavepool
