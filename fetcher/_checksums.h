/* The two checksums of messages: CRC-32 (formats 0 and 1) and CRC-32C (format 2).
 *
 * Each has a version with tables, sixteen bytes a step, that runs anywhere, and on x86-64 one by the processor's own
 * instructions, used if it has them. checksums_prepare() comes first. Tested against zlib's and the crc32c
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
static enum { TABLES, MULTIPLYING, WIDE_MULTIPLYING } checksums_by = TABLES;

#define WORTH_WIDE 256  /* bytes */

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

/* Multiplying by x^n modulo the polynomial moves bytes n bits ahead, where they are added to those there. So all is
 * brought into 16 bytes that have the checksum of the whole, and these are divided by the polynomial.
 *
 * Numbers have their bits in reverse, the highest power first, as the bytes have. Of 16 bytes, the first 8 are 64 bits
 * further ahead than the last; and a product of two such numbers comes out one bit too low, for which factors have one
 * bit more. */
typedef struct {
    uint64_t by_128_bytes[2], by_64_bytes[2], by_32_bytes[2], by_16_bytes[2];  /* for the first and the last 8 of 16 bytes */
    uint64_t by_8_bytes;
    uint64_t polynomial, quotient;  /* of 33 bits; the quotient of x^64 and it */
} multipliers;

static multipliers crc32_multipliers, crc32c_multipliers;

static uint64_t power_of_x(int power, uint32_t polynomial)
{
    uint32_t value = 0x80000000u;
    while (power--)
        value = (value >> 1) ^ ((value & 1) ? polynomial : 0);
    return (uint64_t)value << 1;
}

static void fill_multipliers(multipliers *m, uint32_t polynomial)
{
    uint32_t rest = polynomial;  /* of x^32; what is divided further is x^64 */
    m->quotient = 1;
    for (int bit = 1; bit <= 32; bit++) {
        m->quotient |= (uint64_t)(rest & 1) << bit;
        rest = (rest >> 1) ^ ((rest & 1) ? polynomial : 0);
    }
    m->polynomial = (uint64_t)polynomial << 1 | 1;
    m->by_8_bytes = power_of_x(64, polynomial);
    m->by_16_bytes[0] = power_of_x(128 + 32, polynomial);
    m->by_16_bytes[1] = power_of_x(128 - 32, polynomial);
    m->by_32_bytes[0] = power_of_x(256 + 32, polynomial);
    m->by_32_bytes[1] = power_of_x(256 - 32, polynomial);
    m->by_64_bytes[0] = power_of_x(512 + 32, polynomial);
    m->by_64_bytes[1] = power_of_x(512 - 32, polynomial);
    m->by_128_bytes[0] = power_of_x(1024 + 32, polynomial);
    m->by_128_bytes[1] = power_of_x(1024 - 32, polynomial);
}

#define LOAD(from) _mm_loadu_si128((const __m128i *)(from))
#define AHEAD(value, by) _mm_xor_si128(_mm_clmulepi64_si128(value, by, 0x00), _mm_clmulepi64_si128(value, by, 0x11))

/* Shuffling 16 bytes by what is `n` before (after) the middle moves them n places up (down) and fills with zeros. */
static const unsigned char moves[48] = {
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
};

/* What was brought together so far, of bytes before `data`; 16 bytes at least are before it. */
__attribute__((target("pclmul,sse4.2")))
static uint32_t crc_of_sum(const multipliers *m, __m128i sum, const unsigned char *data, size_t size)
{
    const __m128i by_16_bytes = LOAD(m->by_16_bytes);
    const __m128i low_half = _mm_set_epi32(0, 0, 0, -1);
    __m128i high, quotient;
    while (size >= 16) {
        sum = _mm_xor_si128(AHEAD(sum, by_16_bytes), LOAD(data));
        data += 16;
        size -= 16;
    }
    if (size) {  /* the first `size` bytes go 16 ahead, the others move up to make room for the rest */
        __m128i up = LOAD(moves + size), last = LOAD(data + size - 16);
        __m128i rest = _mm_blendv_epi8(last, _mm_shuffle_epi8(sum, LOAD(moves + 16 + size)), up);
        sum = _mm_xor_si128(AHEAD(_mm_shuffle_epi8(sum, up), by_16_bytes), rest);
    }
    /* 128 bits become 96, become 64; what is missing of a multiple of the polynomial is the remainder. */
    sum = _mm_xor_si128(_mm_srli_si128(sum, 8), _mm_clmulepi64_si128(sum, by_16_bytes, 0x10));
    high = _mm_srli_si128(sum, 4);
    sum = _mm_clmulepi64_si128(_mm_and_si128(sum, low_half), _mm_cvtsi64_si128((int64_t)m->by_8_bytes), 0x00);
    sum = _mm_xor_si128(sum, high);
    quotient = _mm_clmulepi64_si128(_mm_and_si128(sum, low_half), _mm_cvtsi64_si128((int64_t)m->quotient), 0x00);
    quotient = _mm_and_si128(quotient, low_half);
    sum = _mm_xor_si128(sum, _mm_clmulepi64_si128(quotient, _mm_cvtsi64_si128((int64_t)m->polynomial), 0x00));
    return (uint32_t)_mm_extract_epi32(sum, 1);
}

/* Of 16 bytes and more. */
__attribute__((target("pclmul,sse4.2")))
static uint32_t crc_by_multiplying(const multipliers *m, uint32_t crc, const unsigned char *data, size_t size)
{
    const __m128i by_16_bytes = LOAD(m->by_16_bytes);
    __m128i sum = _mm_xor_si128(LOAD(data), _mm_cvtsi32_si128((int)crc));
    data += 16;
    size -= 16;
    if (size >= 48) {
        const __m128i by_64_bytes = LOAD(m->by_64_bytes);
        __m128i second = LOAD(data), third = LOAD(data + 16), fourth = LOAD(data + 32);
        data += 48;
        size -= 48;
        while (size >= 64) {
            sum = _mm_xor_si128(AHEAD(sum, by_64_bytes), LOAD(data));
            second = _mm_xor_si128(AHEAD(second, by_64_bytes), LOAD(data + 16));
            third = _mm_xor_si128(AHEAD(third, by_64_bytes), LOAD(data + 32));
            fourth = _mm_xor_si128(AHEAD(fourth, by_64_bytes), LOAD(data + 48));
            data += 64;
            size -= 64;
        }
        sum = _mm_xor_si128(AHEAD(sum, by_16_bytes), second);
        sum = _mm_xor_si128(AHEAD(sum, by_16_bytes), third);
        sum = _mm_xor_si128(AHEAD(sum, by_16_bytes), fourth);
    }
    return crc_of_sum(m, sum, data, size);
}

#define LOAD_32(from) _mm256_loadu_si256((const __m256i *)(from))
#define AHEAD_32(value, by) \
    _mm256_xor_si256(_mm256_clmulepi64_epi128(value, by, 0x00), _mm256_clmulepi64_epi128(value, by, 0x11))

/* The same with 32 bytes in each register; of 128 bytes and more. */
__attribute__((target("vpclmulqdq,avx2,pclmul,sse4.2")))
static uint32_t crc_by_wide_multiplying(const multipliers *m, uint32_t crc, const unsigned char *data, size_t size)
{
    const __m256i by_128_bytes = _mm256_broadcastsi128_si256(LOAD(m->by_128_bytes));
    const __m256i by_32_bytes = _mm256_broadcastsi128_si256(LOAD(m->by_32_bytes));
    __m256i sum = _mm256_xor_si256(LOAD_32(data), _mm256_zextsi128_si256(_mm_cvtsi32_si128((int)crc)));
    __m256i second = LOAD_32(data + 32), third = LOAD_32(data + 64), fourth = LOAD_32(data + 96);
    __m128i narrow;
    data += 128;
    size -= 128;
    while (size >= 128) {
        sum = _mm256_xor_si256(AHEAD_32(sum, by_128_bytes), LOAD_32(data));
        second = _mm256_xor_si256(AHEAD_32(second, by_128_bytes), LOAD_32(data + 32));
        third = _mm256_xor_si256(AHEAD_32(third, by_128_bytes), LOAD_32(data + 64));
        fourth = _mm256_xor_si256(AHEAD_32(fourth, by_128_bytes), LOAD_32(data + 96));
        data += 128;
        size -= 128;
    }
    sum = _mm256_xor_si256(AHEAD_32(sum, by_32_bytes), second);
    sum = _mm256_xor_si256(AHEAD_32(sum, by_32_bytes), third);
    sum = _mm256_xor_si256(AHEAD_32(sum, by_32_bytes), fourth);
    narrow = AHEAD(_mm256_castsi256_si128(sum), LOAD(m->by_16_bytes));
    return crc_of_sum(m, _mm_xor_si128(narrow, _mm256_extracti128_si256(sum, 1)), data, size);
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

/* Called with the GIL held, at import; tests ask for less than the processor could do. */
static void checksums_prepare(int at_most)
{
    fill_tables(crc32_tables, CRC32_POLYNOMIAL);
    fill_tables(crc32c_tables, CRC32C_POLYNOMIAL);
    checksums_by = TABLES;
#ifdef CHECKSUMS_X86
    fill_multipliers(&crc32_multipliers, CRC32_POLYNOMIAL);
    fill_multipliers(&crc32c_multipliers, CRC32C_POLYNOMIAL);
    __builtin_cpu_init();
    if (at_most >= MULTIPLYING && __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul")) {
        checksums_by = MULTIPLYING;
        if (at_most >= WIDE_MULTIPLYING && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("vpclmulqdq"))
            checksums_by = WIDE_MULTIPLYING;
    }
#else
    (void)at_most;
#endif
}

static uint32_t crc32_of(const unsigned char *data, size_t size)
{
#ifdef CHECKSUMS_X86
    if (checksums_by == WIDE_MULTIPLYING && size >= WORTH_WIDE)
        return ~crc_by_wide_multiplying(&crc32_multipliers, 0xFFFFFFFFu, data, size);
    if (checksums_by != TABLES && size >= 16)
        return ~crc_by_multiplying(&crc32_multipliers, 0xFFFFFFFFu, data, size);
#endif
    return ~crc_by_tables(crc32_tables, 0xFFFFFFFFu, data, size);
}

static uint32_t crc32c_of(const unsigned char *data, size_t size)
{
#ifdef CHECKSUMS_X86
    if (checksums_by == WIDE_MULTIPLYING && size >= WORTH_WIDE)
        return ~crc_by_wide_multiplying(&crc32c_multipliers, 0xFFFFFFFFu, data, size);
    if (checksums_by != TABLES)
        return ~crc32c_by_instruction(0xFFFFFFFFu, data, size);
#endif
    return ~crc_by_tables(crc32c_tables, 0xFFFFFFFFu, data, size);
}

#endif
