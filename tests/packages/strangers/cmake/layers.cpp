#include <mortise/allocators/hslab.hpp>
#include <mortise/mortise.hpp>

static_assert(mortise::Hslab::kProgress.hit == mortise::Guarantee::wait_free);
int main() {}
