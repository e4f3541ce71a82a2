package mask

import (
	"html"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Mask stands where a secret was, or might have been.
const Mask = "MASKED"

// Masker masks texts. The zero value knows no names. It is not for several goroutines.
type Masker struct {
	// Names are those of objects, and may leave. Nil: there are none.
	Names map[string]bool
	// Strict masks every word that is neither in Names nor one of Kubernetes' and schedulers' own messages.
	Strict bool

	known   map[string]string // texts that were masked already: most come again and again
	told    map[string]naming // names that were judged
	longest int               // of the names, in bytes; 0: it is not known
}

// mostKnown bounds the texts that are remembered, by their number.
const mostKnown = 1 << 17

// Text is the text without what may be secret. Text of Text is Text.
func (m *Masker) Text(s string) string {
	if s == "" {
		return s
	}
	if out, ok := m.known[s]; ok {
		return out
	}
	out := s
	for range 4 { // what was masked may show what else is to be; it settles at once, or after another round
		next := m.once(out)
		if next == out {
			break
		}
		out = next
	}
	if m.known == nil || len(m.known) > mostKnown {
		m.known = make(map[string]string)
	}
	m.known[s] = out
	return out
}

func (m *Masker) once(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "?")
	}
	if plain := unescape(s); plain != s && m.all(plain) != plain {
		s = plain
	}
	return collapse(m.all(s))
}

// all is the three steps.
func (m *Masker) all(s string) string {
	return m.words(m.strangers(m.named(m.columns(m.backward(m.inputs(looks(s)))))))
}

var masks = regexp.MustCompile(`MASKED(?:[\s,;:&|/+=.-]*MASKED)+`)

// collapse makes one mask of several in a row, so that neither their number nor their places say anything.
func collapse(s string) string {
	if strings.Count(s, Mask) < 2 {
		return s
	}
	return masks.ReplaceAllString(s, Mask)
}

// Find says whether the text, which should be a name or a value, is anything but harmless.
func (m *Masker) Find(s string) bool { return m.Text(s) != s }

// Looks says whether the text has in it what is a credential by its look, whoever wrote it.
func Looks(s string) bool { return looks(s) != s }

// naming is what a name was judged to be: that of a secret, and in another language than English.
type naming struct{ sensitive, foreign bool }

func (m *Masker) naming(name string) naming {
	is, ok := m.told[name]
	if !ok {
		is = naming{sensitive: Sensitive(name)}
		is.foreign = is.sensitive && foreign(strings.ToLower(name))
		if m.told == nil || len(m.told) > mostKnown {
			m.told = make(map[string]naming)
		}
		m.told[name] = is
	}
	return is
}

func (m *Masker) sensitive(name string) bool { return m.naming(name).sensitive }

func (m *Masker) isName(s string) bool { return m.Names[strings.Trim(s, ".,;:!?()[]{}<>\"'`")] }

// longestName bounds how much of a text is looked up: a tenant may write a word of any length.
func (m *Masker) longestName() int {
	if m.longest == 0 {
		for name := range m.Names {
			m.longest = max(m.longest, len(name))
		}
	}
	return m.longest
}

// generated is what controllers add to a name to make others of it: a hash of the template, five drawn letters.
var generated = regexp.MustCompile(`^(?:-[a-z0-9]{1,10})?-[a-z0-9]{5}\b`)

// nameAt is the length of the longest name that begins at the place and ends where a word does; 0: none does.
func (m *Masker) nameAt(s string, at int) int {
	if len(m.Names) == 0 {
		return 0
	}
	end, most := at, min(len(s), at+m.longestName()+1) // one more byte says whether a word ends there
	for end < most && isNamePart(s[end]) {
		end++
	}
	for end > at {
		if (end == len(s) || !isAlnum(s[end])) && m.Names[s[at:end]] {
			if !m.Strict {
				end += len(generated.FindString(s[end:]))
			}
			return end - at
		}
		for end--; end > at && (isAlnum(s[end]) || !isAlnum(s[end-1])); end-- {
		}
	}
	return 0
}

var escapes = regexp.MustCompile(`%[0-9A-Fa-f]{2}|\\u\{?[0-9A-Fa-f]{4,6}\}?|\\x[0-9A-Fa-f]{2}|&(?:[a-zA-Z]{2,8}|#[0-9]{1,6}|#[xX][0-9A-Fa-f]{1,5});`)

// fullWidth begins the characters that East Asian keyboards have for those of ASCII.
const fullWidth = "\xef\xbc"

// narrow is ASCII for its characters in full width, which separate names from values as theirs do.
func narrow(r rune) rune {
	if r >= '！' && r <= '～' {
		return r - '！' + '!'
	}
	return r
}

// unescape is the text as its reader would have it: percent-encoding, escapes of strings and of HTML are undone.
func unescape(s string) string {
	if strings.Contains(s, fullWidth) {
		s = strings.Map(narrow, strings.ReplaceAll(s, "：", ": "))
	}
	if !strings.ContainsAny(s, `%\&`) {
		return s
	}
	for range 3 { // of what was escaped again
		next := escapes.ReplaceAllStringFunc(s, unescapeOne)
		if next == s {
			break
		}
		s = next
	}
	return strings.ToValidUTF8(s, "?")
}

func unescapeOne(e string) string {
	if e[0] == '&' {
		return html.UnescapeString(e)
	}
	n, err := strconv.ParseUint(strings.Trim(e[1:], "ux{}"), 16, 32)
	if err != nil || n > utf8.MaxRune {
		return e
	}
	if e[0] == '%' || e[1] == 'x' {
		return string([]byte{byte(n)})
	}
	return string(rune(n))
}
