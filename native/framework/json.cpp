#include "framework/json.h"

#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

namespace wavepool {
namespace {

/// Goes through a text and tells how far it has come: the parser gives its callback no position.
class CountingIterator {
  public:
    using iterator_category = std::input_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char*;
    using reference = const char&;

    CountingIterator(const char* at, std::size_t* count) : at_(at), count_(count) {}

    reference operator*() const { return *at_; }
    CountingIterator& operator++() {
        ++at_;
        ++*count_;
        return *this;
    }
    bool operator==(const CountingIterator& other) const { return at_ == other.at_; }

  private:
    const char* at_;
    std::size_t* count_;
};

/// The reason without the library's name for it.
std::string reason_of(const nlohmann::json::exception& error) {
    const std::string_view what = error.what();
    const std::size_t end = what.find("] ");
    return std::string(end == std::string_view::npos ? what : what.substr(end + 2));
}

}  // namespace

nlohmann::json parse_json(std::string_view text) {
    using Event = nlohmann::json::parse_event_t;
    // To the library a zero byte is the end of the text, whatever follows.
    if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos) {
        throw JsonError(zero + 1, "a zero byte");
    }
    std::size_t position = 0;
    std::vector<std::set<std::string>> keys;
    const auto check = [&](int depth, Event event, nlohmann::json& parsed) {
        if (event == Event::object_start || event == Event::array_start) {
            if (depth >= kMaxJsonDepth) {
                throw JsonError(position, "more than " + std::to_string(kMaxJsonDepth) + " levels");
            }
        }
        if (event == Event::object_start) keys.emplace_back();
        if (event == Event::object_end) keys.pop_back();
        if (event == Event::key) {
            const auto& key = parsed.get_ref<const std::string&>();
            if (!keys.back().insert(key).second) {
                throw JsonError(position, "the key \"" + key + "\" is there twice");
            }
        }
        return true;
    };
    try {
        return nlohmann::json::parse(CountingIterator(text.data(), &position),
                                     CountingIterator(text.data() + text.size(), &position), check);
    } catch (const nlohmann::json::parse_error& error) {
        throw JsonError(error.byte, reason_of(error));
    } catch (const nlohmann::json::exception& error) {
        throw JsonError(position, reason_of(error));
    }
}

}  // namespace wavepool
