#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/tensors/tensor_source.h"

namespace wavepool {

// Views show other sources differently. Each keeps its sources alive, reads through them and so
// has their policy: it is synchronized if all of them are, and adds no lock of its own.

/// The tensors whose names begin with `prefix`, without it. Metadata are the source's.
[[nodiscard]] std::shared_ptr<const TensorSource> make_prefix_view(
    std::shared_ptr<const TensorSource> source, std::string prefix);

/// Folds weight norm: NAME_g and NAME_v, or parametrizations.NAME.original0 and original1 of the
/// same module (PyTorch, over all dimensions but the first), appear as NAME = g · v / ‖v‖ in f32,
/// computed with each read. Everything else is as in the source. Throws Error{kModelFileInvalid}
/// where the shapes of a pair do not belong together.
[[nodiscard]] std::shared_ptr<const TensorSource> make_folded_view(
    std::shared_ptr<const TensorSource> source);

/// A source and those of its tensors that take part.
struct CompositePart {
    std::shared_ptr<const TensorSource> source;
    std::vector<std::string> names;
};

/// Several sources as one. A key's value comes from the first source that has it. Throws
/// Error{kModelFileInvalid} for a tensor that is there twice or that its source does not have,
/// Error{kInvalidRequest} without any part.
[[nodiscard]] std::shared_ptr<const TensorSource> make_composite_view(
    std::vector<CompositePart> parts);
/// Joins the sources with all of their tensors.
[[nodiscard]] std::shared_ptr<const TensorSource> make_composite_view(
    std::vector<std::shared_ptr<const TensorSource>> sources);

}  // namespace wavepool
