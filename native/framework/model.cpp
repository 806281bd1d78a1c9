#include "framework/model.h"

#include <algorithm>
#include <new>

#include "framework/gguf_file.h"

namespace wavepool {

std::shared_ptr<const ILoadedModel> load_model(const std::filesystem::path& file,
                                               std::span<const Family> families) {
    try {
        const std::string architecture = GgufFile(file).string("general.architecture");
        const auto family =
            std::ranges::find(families, std::string_view(architecture), &Family::name);
        if (family == families.end()) {
            throw Error(ErrorCode::kModelFileInvalid,
                        file.string() + ": no family is called \"" + architecture + "\"");
        }
        std::shared_ptr<const ILoadedModel> model = family->load(file);
        if (!model) {
            throw Error(ErrorCode::kModelLoadFailed, architecture + " returned no model");
        }
        return model;
    } catch (const Error&) {
        throw;
    } catch (const std::bad_alloc&) {
        throw Error(ErrorCode::kInsufficientMemory, "loading " + file.string());
    } catch (const std::exception& error) {
        throw Error(ErrorCode::kModelLoadFailed, file.string() + ": " + error.what());
    }
}

}  // namespace wavepool
