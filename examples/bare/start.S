// The first instructions of both cores of the board 'virt': a stack each, and on into C. Core 0 clears the memory that
// must be zero and wakes core 1 (PSCI CPU_ON).
        .section .text.start, "ax"
        .global _start
_start: ldr     x0, =stack_0
        mov     sp, x0
        ldr     x0, =bss_start
        ldr     x1, =bss_end
1:      cmp     x0, x1
        b.hs    2f
        str     xzr, [x0], #8
        b       1b
2:      bl      core_0
3:      wfi
        b       3b

        .global second_core_starts
second_core_starts:
        ldr     x0, =stack_1
        mov     sp, x0
        bl      core_1
4:      wfi
        b       4b

        // int wake_second_core(void): 0 when it starts.
        .global wake_second_core
wake_second_core:
        ldr     x0, =0xC4000003
        mov     x1, #1
        ldr     x2, =second_core_starts
        mov     x3, #0
        hvc     #0
        ret

        // long host(int what, void* block): asks the host, by semihosting, to print or to end.
        .global host
host:   hlt     #0xF000
        ret

        .section .note.GNU-stack, "", %progbits
