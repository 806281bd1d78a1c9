#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/sessions/session.h"
#include "framework/tensors/tensor_source.h"

namespace wavepool::fake {

/// The codes of the file's fake.languages, such as "en,de"; none where it has no such key.
[[nodiscard]] std::vector<std::string> languages_of(const TensorSource& file);

/// Gives a result of three words what a fake that knows languages tells besides them: see
/// fake_family.h. Does nothing where there are no languages.
void speak(const std::vector<std::string>& languages, const TaskRequest& request,
           std::uint64_t checksum, TaskResult& result);

}  // namespace wavepool::fake
