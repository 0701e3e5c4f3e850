/* The two checksums of messages: CRC-32 (formats 0 and 1) and CRC-32C (format 2).
 *
 * Each has a version with tables, sixteen bytes a step, that runs anywhere, and on x86-64 one by the processor's own
 * instructions, used if it has them. checksums_prepare() comes first, once. Tested against zlib's and the crc32c
 * package's at every length and alignment.
 */
#ifndef FETCHER_CHECKSUMS_H
#define FETCHER_CHECKSUMS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define CHECKSUMS_X86 1
#include <immintrin.h>
#endif

#define CRC32_POLYNOMIAL 0xEDB88320u  /* bits in reverse, as both checksums go through them */
#define CRC32C_POLYNOMIAL 0x82F63B78u

static uint32_t crc32_tables[16][256];
static uint32_t crc32c_tables[16][256];
static int checksums_by_instruction = 0;

static void fill_tables(uint32_t tables[16][256], uint32_t polynomial)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ ((crc & 1) ? polynomial : 0);
        tables[0][byte] = crc;
    }
    for (int distance = 1; distance < 16; distance++)  /* the same byte with that many zeros behind it */
        for (int byte = 0; byte < 256; byte++) {
            uint32_t crc = tables[distance - 1][byte];
            tables[distance][byte] = (crc >> 8) ^ tables[0][crc & 0xFF];
        }
}

/* Called with the GIL held, at import. */
static void checksums_prepare(int may_use_instructions)
{
    fill_tables(crc32_tables, CRC32_POLYNOMIAL);
    fill_tables(crc32c_tables, CRC32C_POLYNOMIAL);
#ifdef CHECKSUMS_X86
    __builtin_cpu_init();
    checksums_by_instruction = may_use_instructions && __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
#else
    (void)may_use_instructions;
#endif
}

/* Bytes are taken one by one, so the machine's byte order does not matter; compilers see through it where it does not. */
static uint32_t crc_by_tables(const uint32_t tables[16][256], uint32_t crc, const unsigned char *data, size_t size)
{
    while (size >= 16) {
        crc = tables[15][data[0] ^ (crc & 0xFF)] ^ tables[14][data[1] ^ (crc >> 8 & 0xFF)]
            ^ tables[13][data[2] ^ (crc >> 16 & 0xFF)] ^ tables[12][data[3] ^ (crc >> 24)]
            ^ tables[11][data[4]] ^ tables[10][data[5]] ^ tables[9][data[6]] ^ tables[8][data[7]]
            ^ tables[7][data[8]] ^ tables[6][data[9]] ^ tables[5][data[10]] ^ tables[4][data[11]]
            ^ tables[3][data[12]] ^ tables[2][data[13]] ^ tables[1][data[14]] ^ tables[0][data[15]];
        data += 16;
        size -= 16;
    }
    if (size >= 8) {
        crc = tables[7][data[0] ^ (crc & 0xFF)] ^ tables[6][data[1] ^ (crc >> 8 & 0xFF)]
            ^ tables[5][data[2] ^ (crc >> 16 & 0xFF)] ^ tables[4][data[3] ^ (crc >> 24)]
            ^ tables[3][data[4]] ^ tables[2][data[5]] ^ tables[1][data[6]] ^ tables[0][data[7]];
        data += 8;
        size -= 8;
    }
    if (size >= 4) {
        crc = tables[3][data[0] ^ (crc & 0xFF)] ^ tables[2][data[1] ^ (crc >> 8 & 0xFF)]
            ^ tables[1][data[2] ^ (crc >> 16 & 0xFF)] ^ tables[0][data[3] ^ (crc >> 24)];
        data += 4;
        size -= 4;
    }
    while (size--)
        crc = (crc >> 8) ^ tables[0][(crc ^ *data++) & 0xFF];
    return crc;
}

#ifdef CHECKSUMS_X86

/* Multiplying by x^n modulo the polynomial moves 16 bytes that far ahead, where they are added to those there. What is
 * left at the end, 16 bytes and a tail, has the checksum of the whole and goes through the tables. */
__attribute__((target("pclmul,sse4.2")))
static uint32_t crc32_by_multiplying(uint32_t crc, const unsigned char *data, size_t size)
{
    const __m128i by_64_bytes = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);
    const __m128i by_16_bytes = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
    unsigned char folded[16];
    __m128i sum = _mm_xor_si128(_mm_loadu_si128((const __m128i *)data), _mm_cvtsi32_si128((int)crc));

#define AHEAD(value, by) _mm_xor_si128(_mm_clmulepi64_si128(value, by, 0x00), _mm_clmulepi64_si128(value, by, 0x11))
    data += 16;
    size -= 16;
    if (size >= 48) {
        __m128i second = _mm_loadu_si128((const __m128i *)data);
        __m128i third = _mm_loadu_si128((const __m128i *)(data + 16));
        __m128i fourth = _mm_loadu_si128((const __m128i *)(data + 32));
        data += 48;
        size -= 48;
        while (size >= 64) {
            sum = _mm_xor_si128(AHEAD(sum, by_64_bytes), _mm_loadu_si128((const __m128i *)data));
            second = _mm_xor_si128(AHEAD(second, by_64_bytes), _mm_loadu_si128((const __m128i *)(data + 16)));
            third = _mm_xor_si128(AHEAD(third, by_64_bytes), _mm_loadu_si128((const __m128i *)(data + 32)));
            fourth = _mm_xor_si128(AHEAD(fourth, by_64_bytes), _mm_loadu_si128((const __m128i *)(data + 48)));
            data += 64;
            size -= 64;
        }
        sum = _mm_xor_si128(AHEAD(sum, by_16_bytes), second);
        sum = _mm_xor_si128(AHEAD(sum, by_16_bytes), third);
        sum = _mm_xor_si128(AHEAD(sum, by_16_bytes), fourth);
    }
    while (size >= 16) {
        sum = _mm_xor_si128(AHEAD(sum, by_16_bytes), _mm_loadu_si128((const __m128i *)data));
        data += 16;
        size -= 16;
    }
#undef AHEAD
    _mm_storeu_si128((__m128i *)folded, sum);
    return crc_by_tables(crc32_tables, crc_by_tables(crc32_tables, 0, folded, 16), data, size);
}

__attribute__((target("sse4.2")))
static uint32_t crc32c_by_instruction(uint32_t crc, const unsigned char *data, size_t size)
{
    uint64_t sum = crc, word;
    while (size >= 8) {
        memcpy(&word, data, 8);
        sum = _mm_crc32_u64(sum, word);
        data += 8;
        size -= 8;
    }
    crc = (uint32_t)sum;
    while (size--)
        crc = _mm_crc32_u8(crc, *data++);
    return crc;
}

#endif

static uint32_t crc32_of(const unsigned char *data, size_t size)
{
#ifdef CHECKSUMS_X86
    if (checksums_by_instruction && size >= 32)
        return ~crc32_by_multiplying(0xFFFFFFFFu, data, size);
#endif
    return ~crc_by_tables(crc32_tables, 0xFFFFFFFFu, data, size);
}

static uint32_t crc32c_of(const unsigned char *data, size_t size)
{
#ifdef CHECKSUMS_X86
    if (checksums_by_instruction)
        return ~crc32c_by_instruction(0xFFFFFFFFu, data, size);
#endif
    return ~crc_by_tables(crc32c_tables, 0xFFFFFFFFu, data, size);
}

#endif
