#include "explorer/fiber.hpp"

#include <cstdint>

namespace mortise::model {

#if defined(__x86_64__)

// swapcontext would make two system calls a switch; the callee-saved registers are all that a voluntary switch has to
// keep.
extern "C" void mortise_model_switch(void** save, void* load);
asm(R"(
.text
.globl mortise_model_switch
.type mortise_model_switch, @function
mortise_model_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.globl mortise_model_begin
.type mortise_model_begin, @function
mortise_model_begin:
  movq %r12, %rdi
  callq *%r13
  ud2
.section .note.GNU-stack,"",@progbits
.text
)");
extern "C" void mortise_model_begin();

void Fiber::start(Entry entry, void* argument) {
  if (!stack_) stack_ = std::make_unique<std::byte[]>(kStackBytes);
  auto top = reinterpret_cast<std::uintptr_t>(stack_.get()) + kStackBytes;
  top &= ~std::uintptr_t{15};
  // From high to low: two words that align the stack at the call, the return address, then the six registers as popped.
  auto* slot = reinterpret_cast<void**>(top) - 9;
  slot[0] = slot[1] = nullptr;               // r15, r14
  slot[2] = reinterpret_cast<void*>(entry);  // r13
  slot[3] = argument;                        // r12
  slot[4] = slot[5] = nullptr;               // rbx, rbp
  slot[6] = reinterpret_cast<void*>(&mortise_model_begin);
  slot[7] = nullptr;
  inside_ = slot;
}

void Fiber::enter() { mortise_model_switch(&outside_, inside_); }
void Fiber::leave() { mortise_model_switch(&inside_, outside_); }

#else

void Fiber::start(Entry entry, void* argument) {
  if (!stack_) stack_ = std::make_unique<std::byte[]>(kStackBytes);
  getcontext(&inside_);
  inside_.uc_stack.ss_sp = stack_.get();
  inside_.uc_stack.ss_size = kStackBytes;
  inside_.uc_link = nullptr;
  // makecontext passes ints, so the two pointers travel in halves.
  const auto code = reinterpret_cast<std::uintptr_t>(entry), data = reinterpret_cast<std::uintptr_t>(argument);
  auto begin = +[](unsigned code_low, unsigned code_high, unsigned data_low, unsigned data_high) {
    const auto join = [](unsigned low, unsigned high) { return (std::uintptr_t{high} << 32) | low; };
    reinterpret_cast<Entry>(join(code_low, code_high))(reinterpret_cast<void*>(join(data_low, data_high)));
  };
  makecontext(&inside_, reinterpret_cast<void (*)()>(begin), 4, unsigned(code), unsigned(code >> 32), unsigned(data),
              unsigned(data >> 32));
}

void Fiber::enter() { swapcontext(&outside_, &inside_); }
void Fiber::leave() { swapcontext(&inside_, &outside_); }

#endif

}  // namespace mortise::model
