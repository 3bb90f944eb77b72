// Number-crunching with small short-lived blocks: Lucas-Lehmer tests on numbers whose every result is a new block.
//
// An operation is one squaring step: five blocks of 16 to 160 bytes are taken and given back, none outlives the next
// step. The residues are known, so the arithmetic checks itself.
#include <algorithm>

#include "workload.hpp"

namespace {

using Limb = std::uint32_t;

struct Number {
  std::uint32_t count;
  Limb limb[];
};

Number* make(std::uint32_t count) {
  auto* number = static_cast<Number*>(std::malloc(sizeof(Number) + count * sizeof(Limb)));
  if (number == nullptr) bench::fail("no memory");
  number->count = count;
  return number;
}

Number* square(const Number* a) {
  Number* result = make(2 * a->count);
  std::memset(result->limb, 0, result->count * sizeof(Limb));
  for (std::uint32_t i = 0; i < a->count; ++i) {
    std::uint64_t carry = 0;
    for (std::uint32_t j = 0; j < a->count; ++j) {
      carry += static_cast<std::uint64_t>(a->limb[i]) * a->limb[j] + result->limb[i + j];
      result->limb[i + j] = static_cast<Limb>(carry);
      carry >>= 32;
    }
    result->limb[i + a->count] = static_cast<Limb>(carry);
  }
  return result;
}

/// The `count` limbs of `a` from bit `from` on; bits from `upto` on read as zero.
Number* bits(const Number* a, std::uint32_t from, std::uint32_t upto, std::uint32_t count) {
  Number* result = make(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t at = from + 32 * i, limb = at / 32, shift = at % 32;
    std::uint64_t both = limb < a->count ? a->limb[limb] : 0;
    if (limb + 1 < a->count) both |= static_cast<std::uint64_t>(a->limb[limb + 1]) << 32;
    const std::uint32_t left = upto > at ? std::min(32u, upto - at) : 0;
    result->limb[i] = static_cast<Limb>(both >> shift) & (left == 32 ? ~0u : (1u << left) - 1);
  }
  return result;
}

Number* sum(const Number* a, const Number* b) {
  Number* result = make(a->count);
  std::uint64_t carry = 0;
  for (std::uint32_t i = 0; i < a->count; ++i) {
    carry += static_cast<std::uint64_t>(a->limb[i]) + b->limb[i];
    result->limb[i] = static_cast<Limb>(carry);
    carry >>= 32;
  }
  return result;
}

/// `s` squared less two, modulo 2^p - 1: the high bits are added to the low ones, twice because the first may carry.
Number* step(Number* s, std::uint32_t p) {
  const std::uint32_t count = s->count;
  Number* squared = square(s);
  Number* low = bits(squared, 0, p, count);
  Number* high = bits(squared, p, 2 * p, count);
  Number* folded = sum(low, high);
  std::free(squared);
  std::free(low);
  std::free(high);
  std::free(s);
  Number* rest = bits(folded, 0, p, count);
  const std::uint32_t carry = (folded->limb[p / 32] >> (p % 32)) & 1;
  std::free(folded);
  std::int64_t borrow = static_cast<std::int64_t>(carry) - 2;
  for (std::uint32_t i = 0; i < count && borrow != 0; ++i) {
    borrow += rest->limb[i];
    rest->limb[i] = static_cast<Limb>(borrow);
    borrow >>= 32;
  }
  return rest;
}

/// Zero and 2^p - 1 are the same residue.
bool is_zero(const Number* a, std::uint32_t p) {
  bool zero = true, ones = true;
  for (std::uint32_t i = 0; i < a->count; ++i) {
    const std::uint32_t left = p > 32 * i ? std::min(32u, p - 32 * i) : 0;
    zero = zero && a->limb[i] == 0;
    ones = ones && a->limb[i] == (left == 32 ? ~0u : (1u << left) - 1);
  }
  return zero || ones;
}

std::uint64_t work(bench::Share share) {
  struct Exponent {
    std::uint32_t p;
    bool prime;
  };
  constexpr Exponent kExponents[] = {{89, true}, {107, true}, {127, true}, {131, false}, {257, false}};
  std::uint64_t done = 0, primes = 0;
  for (unsigned round = 0; done < share.ops; ++round) {
    const auto [p, prime] = kExponents[round % std::size(kExponents)];
    Number* s = make(p / 32 + 1);
    std::memset(s->limb, 0, s->count * sizeof(Limb));
    s->limb[0] = 4;
    for (std::uint32_t i = 2; i < p; ++i) s = step(s, p);
    if (is_zero(s, p) != prime) bench::fail("a residue is wrong");
    std::free(s);
    primes += prime;
    done += p;
  }
  return primes;
}

}  // namespace

int main(int argc, char** argv) { return bench::run(argc, argv, "bignum", 5'000'000, work); }
