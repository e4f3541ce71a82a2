package mask

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// named masks the values of sensitive names, in whatever notation: JSON, YAML, INI, shell, XML, HCL, a Go or Python
// value, a table, or a sentence. Where it is not clear how far a value goes, it goes further.
func (m *Masker) named(s string) string {
	valueWords := pairStyle(s)
	var b strings.Builder
	done := 0 // bytes of s that are written
	for at := 0; at < len(s); {
		if !startsName(s[at]) {
			at++
			continue
		}
		from := at
		at = nameEnd(s, at)
		name := strings.TrimRight(s[from:at], "-._")
		if name == Mask {
			continue
		}
		if !m.sensitive(name) && !spaced(s, from, name) && !(valueWords && valueNames[strings.ToLower(name)]) {
			continue
		}
		start, end := m.value(s, from, from+len(name))
		if start < 0 {
			continue
		}
		b.WriteString(s[done:start])
		b.WriteString(Mask)
		done, at = end, end
	}
	if done == 0 {
		return s
	}
	return b.String() + s[done:]
}

func isAlnum(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// startsName says whether a name can begin with the byte: names are not only in English.
func startsName(c byte) bool { return isAlnum(c) || c == '_' || c >= utf8.RuneSelf }

// nameEnd is where the name that begins at the place ends. Scripts that put no space between words need none before a
// value either: 密码walrus.
func nameEnd(s string, at int) int {
	for from := at; at < len(s) && (isNamePart(s[at]) || s[at] >= utf8.RuneSelf); at++ {
		if at > from && isAlnum(s[at]) && s[at-1] >= utf8.RuneSelf {
			if r, _ := utf8.DecodeLastRuneInString(s[from:at]); r >= '\u0e00' {
				break
			}
		}
	}
	return at
}

func isNamePart(c byte) bool { return isAlnum(c) || c == '_' || c == '-' || c == '.' }

// valueNames are what a value is called in a pair whose name is a value itself: {name: PASSWORD, value: X}.
var valueNames = map[string]bool{"value": true, "val": true, "values": true, "v": true, "content": true, "contents": true, "default": true, "data": true, "text": true, "stringvalue": true, "string_value": true}

var pairStyles = regexp.MustCompile(`(?i)\b(?:name|key|k|variable|var|field|param|parameter|setting|property|option|attribute|id|header|entry)\b\\*["']?\s*[:=]+>?\s*\\*["']?\s*([\p{L}0-9_.-]+)`)

// pairStyle says whether the text has a pair whose name is sensitive and stands as a value.
func pairStyle(s string) bool {
	if len(s) < 12 {
		return false
	}
	for _, at := range pairStyles.FindAllStringSubmatch(s, -1) {
		if Sensitive(at[1]) {
			return true
		}
	}
	return false
}

// before are words that make a secret of the word "key", "code", "phrase" or "string" after them.
var before = map[string]bool{
	"api": true, "access": true, "account": true, "secret": true, "private": true, "encryption": true, "signing": true, "master": true, "shared": true, "storage": true, "license": true, "auth": true, "ssh": true, "deploy": true,
	"time": true, "otp": true, "login": true, "confirmation": true, "pairing": true, "invite": true, "unlock": true,
	"session": true, "client": true, "admin": true, "root": true, "pass": true, "recovery": true, "backup": true, "connection": true, "verification": true, "security": true, "seed": true, "user": true, "service": true,
}

var after = map[string]bool{"key": true, "keys": true, "code": true, "codes": true, "phrase": true, "string": true, "word": true, "id": true}

// spaced says whether the name is the second of two words that are the name of a secret: "API key", "pass phrase".
func spaced(s string, from int, name string) bool {
	if !after[strings.ToLower(name)] || from < 2 || s[from-1] != ' ' {
		return false
	}
	start := from - 1
	for start > 0 && isAlnum(s[start-1]) {
		start--
	}
	return before[strings.ToLower(s[start:from-1])]
}

// value is where the value of the name at s[from:to] is; start is -1 where there is none.
func (m *Masker) value(s string, from, to int) (start, end int) {
	if from > 0 && s[from-1] == '<' { // an element
		if open := strings.IndexByte(s[to:], '>'); open >= 0 && open < 200 {
			start = to + open + 1
			if strings.HasPrefix(s[start:], "<![CDATA[") {
				start += len("<![CDATA[")
			}
			return nonEmpty(s, start, upTo(s, start, "<\n"))
		}
	}
	sep, j := separator(s, to)
	flag := from > 0 && s[from-1] == '-'
	name := strings.ToLower(s[from:to])
	switch {
	case j >= len(s):
		return -1, 0
	case s[j] == '\n' && s[j-1] == '>': // password =>, and on the next line what it is
		return nonEmpty(s, j+1, upTo(s, j+1, "\n"))
	case s[j] == '\n' && sep != 0:
		return nextLines(s, lineStart(s, from), j)
	case s[j] == '\n':
		return -1, 0
	case sep == 0 && rate.MatchString(s[to:]):
		return -1, 0
	case sep == 0 && !flag && m.naming(s[from:to]).foreign:
		return nonEmpty(s, j, upTo(s, j, "\n"))
	case sep == 0 && !flag:
		before := s[max(0, from-16):from]
		return m.sentence(s, j, (name == "secret" || name == "secrets" || name == "token") && !handed.MatchString(before) && !(name == "token" && judged.MatchString(before)))
	case sep == ':' && m.prose(name, s, j):
		return -1, 0
	case (name == "secrets" || name == "tokens") && quantity.MatchString(s[j:]):
		return -1, 0 // a quota: secrets=1
	case (name == "key" || name == "keys") && qualified.MatchString(s[j:]):
		return -1, 0 // of a label or a taint
	}
	return nonEmpty(s, j, m.extent(s, j, headers[name]))
}

func nonEmpty(s string, start, end int) (int, int) {
	if strings.TrimSpace(s[start:end]) == "" || s[start:end] == Mask {
		return -1, 0
	}
	return start, end
}

var quantity = regexp.MustCompile(`^\d{1,7}(?:[KMGTkm]i?)?(?:[\s,;}]|$)`)

// qualified is the name of a label, a taint or a resource in a domain.
var qualified = regexp.MustCompile(`^(?:[a-z-]{2,20}\.){1,4}(?:io|com|dev|sh|ai|org)/[a-z._-]{2,40}(?:[\s,;:}\])]|$)`)

// headers are names whose values go to the end of the line, or of the text in quotes.
var headers = map[string]bool{"authorization": true, "proxy-authorization": true, "cookie": true, "set-cookie": true, "x-api-key": true, "x-auth-token": true}

// separator skips what stands between a name and its value. sep is '=' or ':' or 0, where nothing but space is there.
func separator(s string, at int) (sep byte, value int) {
	quoted, from := false, at
	for at < len(s) {
		switch c := s[at]; {
		case sep == 0 && (quoted || at == from) && (c == '"' || c == '\'' || c == '`' || c == ']' || c == ')' || c == '\\'):
			quoted = true
			at++
		case sep == 0 && strings.IndexByte("!?+-", c) >= 0 && at+1 < len(s) && (s[at+1] == '=' || c == '-' && s[at+1] == '>'): // != ?= += ->
			sep = '='
			at += 2
		case c == '=' || c == ':' || c == '>' && sep != 0 && s[at-1] == '=' || c == '~' && sep == 0:
			if sep == 0 || c == '=' {
				sep = c
			}
			at++
		case sep == 0 && (quoted || at == from && at+1 < len(s) && !isSpace(s[at+1])) && (c == ',' || c == ';'), sep == 0 && c == '(', sep == 0 && c == '{', sep == 0 && c == '[', sep == 0 && c == '|':
			if c == ',' || c == ';' || c == '|' {
				at++
			}
			return '=', skipSpace(s, at)
		case c == ' ' || c == '\t':
			at++
		case sep != 0 && c == '\\' && at+1 < len(s) && (s[at+1] == 't' || s[at+1] == 'n'):
			at += 2
		default:
			return sep, at
		}
	}
	return sep, at
}

func skipSpace(s string, at int) int {
	for at < len(s) && (s[at] == ' ' || s[at] == '\t') {
		at++
	}
	return at
}

func upTo(s string, from int, stops string) int {
	if i := strings.IndexAny(s[from:], stops); i >= 0 {
		return from + i
	}
	return len(s)
}

func lineStart(s string, at int) int { return strings.LastIndexByte(s[:at], '\n') + 1 }

func indent(s string, at int) int { return skipSpace(s, at) - at }

// nextLines is the value that begins after the line end at j and belongs to the name: lines that are indented further,
// or items of a list.
func nextLines(s string, line, j int) (int, int) {
	depth := indent(s, line)
	start, end := j+1, j+1
	for end < len(s) {
		stop := upTo(s, end, "\n")
		text := strings.TrimSpace(s[end:stop])
		if text != "" && indent(s, end) <= depth && !strings.HasPrefix(text, "- ") {
			break
		}
		end = min(stop+1, len(s))
	}
	if strings.TrimSpace(s[min(start, len(s)):max(start, trimEnd(s, start, end))]) == "" && loneWord(s, start) {
		end = upTo(s, start, "\n") // what a prompt was answered with
		return nonEmpty(s, start, end)
	}
	return nonEmpty(s, min(start, len(s)), max(start, trimEnd(s, start, end)))
}

// loneWord says whether the line that begins at the place is one word, and neither a name nor a message.
func loneWord(s string, start int) bool {
	if start >= len(s) {
		return false
	}
	line := strings.TrimSpace(s[start:upTo(s, start, "\n")])
	return line != "" && line != Mask && !strings.ContainsAny(line, " \t") && !nextPair.MatchString(line) && !Vocabulary(strings.Trim(line, ".,;:!?()[]{}\"'"))
}

// trimEnd leaves the line end before end out.
func trimEnd(s string, start, end int) int {
	if end > start && end <= len(s) && s[end-1] == '\n' {
		return end - 1
	}
	return min(end, len(s))
}

// extent is where the value that begins at j ends.
func (m *Masker) extent(s string, j int, whole bool) int {
	k := j
	if k+1 < len(s) && strings.IndexByte("bBrRfFuU$@", s[k]) >= 0 && isQuote(s[k+1]) { // b'X', $'X', @"X"
		k++
	}
	switch c := s[k]; {
	case c == '\\' && k+1 < len(s) && isQuote(s[k+1]) || c == '\\' && k+2 < len(s) && s[k+1] == '\\':
		return escapedEnd(s, k)
	case isQuote(c):
		return quoteEnd(s, k)
	case c == '{' || c == '[' || c == '(':
		return groupEnd(s, k)
	case (c == '|' || c == '>') && strings.IndexByte(s[k:], '\n') >= 0:
		if end := upTo(s, k, "\n"); end-k <= 3 {
			_, stop := nextLines(s, lineStart(s, k), end)
			return max(stop, end)
		}
	case c == '<' && strings.HasPrefix(s[k:], "<<"):
		return len(s) // a here-document
	}
	end := upTo(s, k, " \t\n<")
	if end == k {
		end = min(k+1, len(s))
	}
	if whole {
		return wholeEnd(s, j, k)
	}
	return m.further(s, end)
}

// wholeEnd is the end of the line, or of the quotes that the line is in: a header on a command line is.
func wholeEnd(s string, j, k int) int {
	line := s[lineStart(s, j):j]
	for _, q := range []string{`"`, "'"} {
		if strings.Count(line, q)%2 == 1 {
			return upTo(s, k, "\n"+q)
		}
	}
	return upTo(s, k, "\n")
}

func isQuote(c byte) bool { return c == '"' || c == '\'' || c == '`' }

// quoteEnd is after the quote that closes the one at k, or the end of the line.
func quoteEnd(s string, k int) int {
	triple := strings.HasPrefix(s[k+1:], s[k:k+1]+s[k:k+1])
	if triple {
		if i := strings.Index(s[k+3:], s[k:k+3]); i >= 0 {
			return k + 3 + i + 3
		}
		return len(s)
	}
	for i := k + 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[k]:
			return i + 1
		}
	}
	return upTo(s, k, "\n")
}

// escapedEnd is after the escaped quote that closes the one at k, of the same depth: \"X\", \\\"X\\\".
func escapedEnd(s string, k int) int {
	n := k
	for n < len(s) && s[n] == '\\' {
		n++
	}
	if n == len(s) || !isQuote(s[n]) {
		return upTo(s, k, " \t\n\"'")
	}
	mark := s[k : n+1]
	if i := strings.Index(s[n+1:], mark); i >= 0 {
		return n + 1 + i + len(mark)
	}
	return upTo(s, k, "\n")
}

// groupEnd is after the bracket that closes the one at k, or the end of the text.
func groupEnd(s string, k int) int {
	depth := 0
	for i := k; i < len(s); i++ {
		switch s[i] {
		case '{', '[', '(':
			depth++
		case '}', ']', ')':
			if depth--; depth <= 0 {
				return i + 1
			}
		}
	}
	return len(s)
}

var nextPair = regexp.MustCompile(`^(?:--?[A-Za-z]|[A-Za-z_][A-Za-z0-9_.-]*(?:\([a-z]{1,4}\))?\\*["']?\s?[=:]|[&|;]|#)`)

// further goes on over words that may belong to a value with spaces in it: up to a word of messages, the next name, or
// the end of the line.
func (m *Masker) further(s string, end int) int {
	for end < len(s) && s[end] == ' ' {
		next := skipSpace(s, end)
		if next >= len(s) || s[next] == '\n' || nextPair.MatchString(s[next:min(len(s), next+60)]) {
			return end
		}
		stop := upTo(s, next, " \t\n<")
		if Vocabulary(strings.Trim(s[next:stop], ".,;:!?()[]{}\"'")) {
			return end
		}
		end = stop
	}
	return end
}

func lettered(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// rate is what follows a name of which so many are handled in some time.
var rate = regexp.MustCompile(`^/(?:s|sec|second)\b`)

// handed ends with what somebody does with a secret, not with an object: "using token X".
var handed = regexp.MustCompile(`(?i)(?:^|\s)(?:using|used|with|got|tried|trying|sent|sending|received|via)\s+(?:the\s+|a\s+)?$`)

// judged ends with what is said of a token that somebody was given, not of one in a grammar: "bad token X".
var judged = regexp.MustCompile(`(?i)(?:^|\s|")(?:bad|wrong|invalid|expired|stale|revoked|rejected|refused|denied|leaked|current|old|new|default|temporary|initial|your|my)\s+$`)

// linking are words between the name of a secret and the secret in a sentence.
var linking = map[string]bool{"is": true, "was": true, "set": true, "to": true, "now": true, "being": true, "changed": true, "reset": true, "equals": true, "of": true, "as": true, "value": true, "with": true, "using": true, "used": true, "from": true, "eq": true, "ne": true,
	"has": true, "have": true, "had": true, "been": true, "will": true, "be": true, "becomes": true, "became": true, "reads": true, "generated": true,
	"sha": true, "md5": true, "sha1": true, "sha256": true, "sha512": true, "aes": true, "des": true, "plain": true, "basic": true, "digest": true, "scram": true, // by which algorithm
	"ist": true, "es": true, "est": true, "è": true, "é": true, "jest": true, "är": true, "er": true}

// sentence finds the secret in "the password is X": the first word after the name that is neither one of messages nor a
// name of an object, if only linking words are between. Kubernetes' own Secrets are named in sentences: object.
func (m *Masker) sentence(s string, j int, object bool) (int, int) {
	linked := false
	for at := j; at < len(s); {
		end := upTo(s, at, " \t\n,;")
		if isQuote(s[at]) {
			end = quoteEnd(s, at)
		}
		w := strings.Trim(s[at:end], ".,;:!?()[]{}\"'`")
		switch {
		case w == Mask && strings.HasPrefix(s[end:], " to "), !isQuote(s[at]) && (strings.HasPrefix(w, "-") || !strings.ContainsFunc(w, lettered)): // changed from X to Y; a flag; an operator
		case w == "" || w == Mask || m.isName(w):
			return -1, 0
		case linking[strings.ToLower(w)]:
			linked = true
		case Vocabulary(w) && !isQuote(s[at]):
			return m.answered(s, at, w)
		case object && !linked && m.objectName(w):
			return -1, 0
		case s[end-1] == ':' && end < len(s) && s[end] == ' ': // what happened to it, and then it: "token rotated: X"
			if m.prose("", s, end+1) {
				return -1, 0
			}
			return nonEmpty(s, end+1, upTo(s, end, "\n"))
		default:
			return at, end
		}
		if end >= len(s) || s[end] == '\n' {
			return -1, 0
		}
		at = skipSpace(s, end+1)
	}
	return -1, 0
}

// answered finds the secret in "password for user bob: X": a lone word that ends the line, after whose it is.
func (m *Masker) answered(s string, at int, w string) (int, int) {
	if w != "for" && w != "of" {
		return -1, 0
	}
	end := upTo(s, at, "\n")
	colon := strings.Index(s[at:end], ": ")
	if colon < 0 || colon > 80 {
		return -1, 0
	}
	start := at + colon + 2
	if value := strings.Trim(s[start:end], " \t\"'`."); strings.ContainsAny(value, " \t") || Vocabulary(value) || m.isName(value) {
		return -1, 0
	}
	return nonEmpty(s, start, end)
}

var objectName = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9./-]{0,250}[a-z0-9])?$`)

// objectName says whether the word may be the name of an object, as in: secret "creds" not found.
func (m *Masker) objectName(w string) bool {
	return !m.Strict && objectName.MatchString(w) && m.harmless(w)
}

// prose says whether "name: value" is a sentence of a program: "failed to fetch token: unexpected status".
func (m *Masker) prose(name, s string, j int) bool {
	if j > 0 && s[j-1] != ' ' || isQuote(s[j]) {
		return false
	}
	end := upTo(s, j, "\n")
	words := strings.Fields(s[j:min(end, j+80)])
	if len(words) == 0 {
		return false
	}
	word := func(i int) bool {
		w := strings.Trim(words[i], ".,;:!?()\"'")
		return Vocabulary(w) || m.isName(w)
	}
	switch {
	case name == "key" || name == "keys":
		return m.harmless(words[0])
	case len(words) == 1:
		return false
	}
	return word(0) && word(1)
}
