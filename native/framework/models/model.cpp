#include "framework/models/model.h"

#include <algorithm>
#include <new>

#include "framework/sessions/session_pool.h"

namespace wavepool {
namespace {

const Family& family_of(const TensorSource& source, std::span<const Family> families) {
    if (source.metadata("general.architecture")) {
        const std::string architecture = source.string("general.architecture");
        const auto named =
            std::ranges::find(families, std::string_view(architecture), &Family::name);
        if (named != families.end()) return *named;
        throw Error(ErrorCode::kModelFileInvalid,
                    source.description() + ": no family is called \"" + architecture + "\"");
    }
    const auto recognized = std::ranges::find_if(families, [&](const Family& family) {
        return family.recognizes != nullptr && family.recognizes(source);
    });
    if (recognized != families.end()) return *recognized;
    throw Error(
        ErrorCode::kModelFileInvalid,
        source.description() + ": general.architecture is missing and no family knows its tensors");
}

/// Runs `body`, whose failures come out under a code.
template <typename Body>
auto with_codes(const std::filesystem::path& file, const char* what, Body&& body) {
    try {
        return body();
    } catch (const Error&) {
        throw;
    } catch (const std::bad_alloc&) {
        throw Error(ErrorCode::kInsufficientMemory, what + (" " + file.string()));
    } catch (const std::exception& error) {
        throw Error(ErrorCode::kModelLoadFailed, file.string() + ": " + error.what());
    }
}

}  // namespace

std::shared_ptr<const ILoadedModel> load_model(const std::filesystem::path& file,
                                               std::span<const Family> families) {
    return with_codes(file, "loading", [&] {
        const auto source = open_tensor_source(file);
        const Family& family = family_of(*source, families);
        std::shared_ptr<const ILoadedModel> model = family.load(*source);
        if (!model) {
            throw Error(ErrorCode::kModelLoadFailed,
                        std::string(family.name) + " returned no model");
        }
        return model;
    });
}

ModelPlan plan_model(const std::filesystem::path& file, const SessionOptions& options,
                     std::span<const Family> families) {
    return with_codes(file, "planning", [&] {
        const auto source = open_tensor_source(file);
        ModelPlan plan = family_of(*source, families).plan(*source, options);
        plan.capacity = std::min(plan.capacity, kMaxParallelSessions);
        return plan;
    });
}

}  // namespace wavepool
