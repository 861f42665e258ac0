/* kernels.c: see kernels.h. */
#include "prove/kernels.h"

/* %rd3 is the index of the thread in the grid, %rd5 how many threads there are. */
#define INDEX                                                                                      \
    "  mov.u32 %r2, %ctaid.x;\n"                                                                   \
    "  mov.u32 %r3, %ntid.x;\n"                                                                    \
    "  mov.u32 %r4, %tid.x;\n"                                                                     \
    "  mul.wide.u32 %rd3, %r2, %r3;\n"                                                             \
    "  cvt.u64.u32 %rd4, %r4;\n"                                                                   \
    "  add.u64 %rd3, %rd3, %rd4;\n"                                                                \
    "  mov.u32 %r5, %nctaid.x;\n"                                                                  \
    "  mul.wide.u32 %rd5, %r5, %r3;\n"

#define REGISTERS                                                                                  \
    "  .reg .pred %p<3>;\n"                                                                        \
    "  .reg .b32 %r<12>;\n"                                                                        \
    "  .reg .b64 %rd<12>;\n"

/* %rd1 the words' address, %rd2 their number, %r1 the seed. */
#define WORDS                                                                                      \
    "  ld.param.u64 %rd1, [words];\n"                                                              \
    "  cvta.to.global.u64 %rd1, %rd1;\n"                                                           \
    "  ld.param.u64 %rd2, [count];\n"

/* For each word of the thread: %r7 is what belongs there, %rd6 its address. */
#define EACH_WORD                                                                                  \
    "NEXT:\n"                                                                                      \
    "  setp.ge.u64 %p1, %rd3, %rd2;\n"                                                             \
    "  @%p1 bra DONE;\n"                                                                           \
    "  cvt.u32.u64 %r6, %rd3;\n"                                                                   \
    "  mul.lo.u32 %r7, %r6, 2654435761;\n"                                                         \
    "  add.u32 %r7, %r7, %r1;\n"                                                                   \
    "  shl.b64 %rd6, %rd3, 2;\n"                                                                   \
    "  add.u64 %rd6, %rd1, %rd6;\n"

#define NEXT_WORD                                                                                  \
    "  add.u64 %rd3, %rd3, %rd5;\n"                                                                \
    "  bra NEXT;\n"                                                                                \
    "DONE:\n"

const char kernels_ptx[] =
    ".version 6.0\n.target sm_50\n.address_size 64\n"

    ".visible .entry fill(.param .u64 words, .param .u64 count, .param .u32 seed)\n{\n" REGISTERS
        WORDS "  ld.param.u32 %r1, [seed];\n" INDEX EACH_WORD
    "  st.global.u32 [%rd6], %r7;\n" NEXT_WORD "  ret;\n}\n"

    ".visible .entry check(.param .u64 words, .param .u64 count, .param .u32 seed,\n"
    "                      .param .u64 wrong)\n{\n" REGISTERS WORDS "  ld.param.u32 %r1, [seed];\n"
    "  ld.param.u64 %rd7, [wrong];\n"
    "  cvta.to.global.u64 %rd7, %rd7;\n"
    "  mov.u64 %rd8, 0;\n" INDEX EACH_WORD "  ld.global.u32 %r8, [%rd6];\n"
    "  setp.ne.u32 %p2, %r8, %r7;\n"
    "  @%p2 add.u64 %rd8, %rd8, 1;\n" NEXT_WORD "  setp.eq.u64 %p2, %rd8, 0;\n"
    "  @%p2 bra RIGHT;\n"
    "  atom.global.add.u64 %rd9, [%rd7], %rd8;\n"
    "RIGHT:\n"
    "  ret;\n}\n"

    ".visible .entry spin(.param .u64 cycles)\n{\n" REGISTERS "  ld.param.u64 %rd1, [cycles];\n"
    "  mov.u64 %rd2, %clock64;\n"
    "NEXT:\n"
    "  mov.u64 %rd3, %clock64;\n"
    "  sub.u64 %rd4, %rd3, %rd2;\n"
    "  setp.lt.u64 %p1, %rd4, %rd1;\n"
    "  @%p1 bra NEXT;\n"
    "  ret;\n}\n";
