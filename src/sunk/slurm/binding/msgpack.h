/* A growing buffer of MessagePack: just the kinds of values that our records have. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
	uint8_t *data;
	size_t size;
	size_t room;
	int broken;		/* memory ran out: what is in it is not complete */
} sunk_buffer;

static uint8_t *sunk_grow(sunk_buffer *b, size_t more)
{
	if (b->size + more > b->room) {
		size_t room = (b->room ? b->room : 1 << 16) * 2;
		while (room < b->size + more)
			room *= 2;
		uint8_t *data = b->broken ? NULL : realloc(b->data, room);
		if (!data) {
			b->broken = 1;
			return NULL;
		}
		b->data = data;
		b->room = room;
	}
	uint8_t *place = b->data + b->size;
	b->size += more;
	return place;
}

static void sunk_free(sunk_buffer *b)
{
	free(b->data);
	sunk_given_back(b->room);
	memset(b, 0, sizeof(*b));
}

static void put_bytes(sunk_buffer *b, const void *from, size_t count)
{
	uint8_t *place = sunk_grow(b, count);
	if (place)
		memcpy(place, from, count);
}

/* A mark, then a number of that many bytes, most significant first. */
static void put_head(sunk_buffer *b, uint8_t mark, uint64_t value, int bytes)
{
	uint8_t *place = sunk_grow(b, 1 + bytes);
	if (!place)
		return;
	*place++ = mark;
	while (bytes--)
		*place++ = value >> (8 * bytes);
}

static void put_none(sunk_buffer *b)
{
	put_head(b, 0xc0, 0, 0);
}

static void put_truth(sunk_buffer *b, int truth)
{
	put_head(b, truth ? 0xc3 : 0xc2, 0, 0);
}

static void put_number(sunk_buffer *b, uint64_t value)
{
	if (value < 0x80)
		put_head(b, value, 0, 0);
	else if (value <= UINT16_MAX)
		put_head(b, 0xcd, value, 2);
	else if (value <= UINT32_MAX)
		put_head(b, 0xce, value, 4);
	else
		put_head(b, 0xcf, value, 8);
}

/* Slurm says "not set" and "without limit" by the two highest values of the type but one. */
static void put_optional(sunk_buffer *b, uint64_t value, size_t bytes)
{
	uint64_t highest = bytes >= 8 ? UINT64_MAX : (UINT64_C(1) << (8 * bytes)) - 1;
	if (value == highest || value == highest - 1)
		put_none(b);
	else
		put_number(b, value);
}

static void put_array(sunk_buffer *b, uint32_t count)
{
	put_head(b, 0xdd, count, 4);
}

/* Length of the UTF-8 character at s, 0 if there is none: as strict as Python, that is no surrogates, no overlong forms. */
static int utf8_character(const unsigned char *s)
{
	if (s[0] < 0x80)
		return 1;
	if (s[0] < 0xc2 || s[0] > 0xf4)
		return 0;
	if ((s[1] & 0xc0) != 0x80)
		return 0;
	if (s[0] < 0xe0)
		return 2;
	if ((s[2] & 0xc0) != 0x80 || (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f))
		return 0;
	if (s[0] < 0xf0)
		return 3;
	if ((s[3] & 0xc0) != 0x80 || (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return 4;
}

/* Whatever a user put into a comment must not make the whole table unreadable: each bad byte becomes U+FFFD. */
static void put_mended(sunk_buffer *b, const char *text, size_t length)
{
	const unsigned char *at = (const unsigned char *) text, *end = at + length;
	sunk_buffer good = { 0 };
	while (at < end) {
		int width = utf8_character(at);
		if (width && at + width <= end) {
			put_bytes(&good, at, width);
			at += width;
		} else {
			put_bytes(&good, "\xef\xbf\xbd", 3);
			at++;
		}
	}
	put_head(b, 0xdb, good.size, 4);
	put_bytes(b, good.data, good.size);
	b->broken |= good.broken;
	sunk_free(&good);
}

static void put_part(sunk_buffer *b, const char *text, size_t length)
{
	size_t done = 0;
	while (done < length) {
		int width = utf8_character((const unsigned char *) text + done);
		if (!width || done + width > length) {
			put_mended(b, text, length);
			return;
		}
		done += width;
	}
	if (length < 32)
		put_head(b, 0xa0 | length, 0, 0);
	else if (length <= UINT8_MAX)
		put_head(b, 0xd9, length, 1);
	else
		put_head(b, 0xdb, length, 4);
	put_bytes(b, text, length);
}

static void put_text(sunk_buffer *b, const char *text)
{
	put_part(b, text ? text : "", text ? strlen(text) : 0);
}

/* A text that anybody may write, however long: what is beyond `most` bytes is left out, and three dots say so. The
 * mirror holds every row for as long as it is there, and ten thousand jobs of one user must not fill its memory. (An
 * ellipsis would be one character, and make Python hold all of the text in two bytes for each.)
 */
static void put_cut(sunk_buffer *b, const char *text, size_t most)
{
	static const char mark[] = "...";
	size_t length = text ? strnlen(text, most + 1) : 0;
	if (length <= most) {
		put_part(b, text ? text : "", length);
		return;
	}
	length = most - strlen(mark);
	while (length && ((unsigned char) text[length] & 0xc0) == 0x80)
		length--;
	char *cut = malloc(length + sizeof(mark));
	if (!cut) {
		b->broken = 1;
		return;
	}
	memcpy(cut, text, length);
	memcpy(cut + length, mark, sizeof(mark));
	put_text(b, cut);
	free(cut);
}

/* A list by commas, as Slurm has for features. */
static void put_words(sunk_buffer *b, const char *text)
{
	uint32_t count = text && *text ? 1 : 0;
	for (const char *at = text; count && *at; at++)
		count += *at == ',';
	put_array(b, count);
	while (count--) {
		size_t length = strcspn(text, ",");
		put_part(b, text, length);
		text += length + 1;
	}
}

static void put_texts(sunk_buffer *b, char **texts, uint32_t count)
{
	put_array(b, texts ? count : 0);
	for (uint32_t i = 0; texts && i < count; i++)
		put_text(b, texts[i]);
}
