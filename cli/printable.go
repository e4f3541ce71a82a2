package cli

import (
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// printable is a stream to a person. Whatever an object, a bundle, a log line or an error has in it, nothing but text,
// line ends and tabs gets through: no escape sequences, which move the cursor, recolour, link, or write to the clipboard;
// no other control characters; and none of the marks that turn the direction of writing. Each stands as its code.
//
// Main puts it around both streams, so that no command can forget it. What Berth itself has a terminal do is written as
// one of the marks below, which nobody else can write: they are drawn anew in every process.
type printable struct {
	w    io.Writer
	part []byte // the beginning of a character that the last Write ended in
}

func (p *printable) Write(b []byte) (int, error) {
	text := b
	if len(p.part) > 0 {
		text = append(p.part, b...)
		p.part = nil
	}
	if n := unfinished(text); n > 0 {
		p.part = append([]byte(nil), text[len(text)-n:]...)
		text = text[:len(text)-n]
	}
	if _, err := p.w.Write(harmless(text)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// unfinished is how many bytes at the end are the beginning of a character.
func unfinished(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if utf8.RuneStart(b[len(b)-n]) {
			if !utf8.FullRune(b[len(b)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// Marks of what a terminal is to do.
var (
	mark      = "\x1b" + rand.Text()
	eraseLine = mark + "K" // and begin it again
	red       = mark + "R"
	unstyled  = mark + "0"
)

var sequences = map[byte]string{'K': "\r\x1b[K", 'R': "\x1b[1;31m", '0': "\x1b[0m"}

// sequence is what a mark at the beginning of the text stands for, and how long it is; 0: there is none.
func sequence(b []byte) (string, int) {
	if len(b) <= len(mark) || string(b[:len(mark)]) != mark {
		return "", 0
	}
	return sequences[b[len(mark)]], len(mark) + 1
}

// harmless is the text with every character that a terminal would act on written as its code, as JSON writes it: JSON
// stays JSON.
func harmless(b []byte) []byte {
	at := 0
	for at < len(b) {
		r, n := utf8.DecodeRune(b[at:])
		if acts(r, n) {
			break
		}
		at += n
	}
	if at == len(b) {
		return b // nearly always
	}
	out := append(make([]byte, 0, len(b)+16), b[:at]...)
	for at < len(b) {
		r, n := utf8.DecodeRune(b[at:])
		own, long := sequence(b[at:])
		switch {
		case long > 0:
			out, n = append(out, own...), long
		case r == '\r' && at+1 < len(b) && b[at+1] == '\n': // the line end of another system
		case acts(r, n) && r == utf8.RuneError:
			out = fmt.Appendf(out, `\u%04x`, b[at])
		case acts(r, n) && r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		case acts(r, n):
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			out = append(out, b[at:at+n]...)
		}
		at += n
	}
	return out
}

// acts says whether a terminal may do anything with the character but show it. n is the bytes it took: of one that is no
// UTF-8, one.
func acts(r rune, n int) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r == utf8.RuneError && n == 1:
		return true
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' || r >= 0xe0000 && r <= 0xe007f
}

// cell is a text in one line, for tables and lists: what would begin another line or column is a space.
func cell(s string) string {
	if !strings.ContainsAny(s, "\n\r\t\v\f\u0085\u2028\u2029") {
		return s
	}
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\u2028' || r == '\u2029' || unicode.IsSpace(r) }), " ")
}

// raw is the stream under a printable one, to be asked what it is; what is written to it is not made harmless.
func raw(w io.Writer) io.Writer {
	if p, ok := w.(*printable); ok {
		return p.w
	}
	return w
}
