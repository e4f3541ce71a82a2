package mask

import (
	"regexp"
	"slices"
	"strings"
)

// strangers masks the values of names that say nothing: of "clave=X", "mdp: X" and {"密码": "X"} nobody here knows whether X
// is a secret, in whatever language it is one. Of such a value the words of messages, the names of objects and small
// numbers leave, as they do where names are redacted; that a word reads like a language does not vouch for it.
func (m *Masker) strangers(s string) string {
	if m.Strict || !strings.ContainsAny(s, "=:") {
		return s
	}
	var b strings.Builder
	done := 0
	for at := 0; at < len(s); {
		if !startsName(s[at]) {
			at++
			continue
		}
		from := at
		at = nameEnd(s, at)
		if from > 0 && s[from-1] == '\\' { // the n of a line end
			from++
		}
		name := strings.TrimRight(s[from:at], "-._")
		if (m.acquainted(name) && !assigned(name, s[from+len(name):])) || isDigit(name[0]) {
			continue
		}
		start, end := m.strangersValue(s, from+len(name))
		if start < 0 || identity(strings.ToLower(name), s[start:end]) {
			continue
		}
		out := m.severe(s[start:end])
		b.WriteString(s[done:start])
		b.WriteString(out)
		done, at = end, end
	}
	if done == 0 {
		return s
	}
	return b.String() + s[done:]
}

// identity says whether the value is a hash or a UUID of what is no secret, as its name says.
func identity(name, value string) bool {
	return sumNames[name] && hexadecimal.MatchString(value) || strings.HasSuffix(name, "id") && len(value) < 40 && strings.Trim(withoutUUIDs(value), `"'\`) == ""
}

// assigned says whether a shell assigns to the name: a letter means nothing in particular then.
func assigned(name, rest string) bool {
	return len(name) == 1 && name[0] >= 'A' && name[0] <= 'Z' && strings.HasPrefix(rest, "=")
}

// acquainted says whether the name is one of an object, or made of words of messages.
func (m *Masker) acquainted(name string) bool {
	if name == "" || m.isName(name) || Vocabulary(name) || len(name) == 1 {
		return true
	}
	for _, p := range fields(name) {
		if bare := strings.TrimRight(p, "0123456789"); bare != "" && !Vocabulary(bare) && !Vocabulary(p) {
			return false
		}
	}
	return !strings.ContainsFunc(name, func(r rune) bool { return r > '~' })
}

// strangersValue is where the value of the name that ends at the place is: after an equals sign, or a colon that does not
// belong to an address, an image or a time. Values in brackets have names of their own in them.
func (m *Masker) strangersValue(s string, to int) (start, end int) {
	sep, j := separator(s, to)
	switch {
	case j >= len(s) || s[j] == '\n' || strings.IndexByte("{[(<|>&*", s[j]) >= 0 || !strings.ContainsAny(s[to:j], "=:"):
		return -1, 0
	case sep == ':' && !isSpace(s[j-1]) && strings.IndexByte("\"'\\", s[j]) < 0 && strings.IndexByte("\"'\\", s[to]) < 0:
		return -1, 0
	}
	end = m.extent(s, j, false)
	if at := lineEnd.FindStringIndex(s[j:end]); at != nil && at[0] > 0 {
		end = j + at[0]
	}
	return nonEmpty(s, j, end)
}

// lineEnd is the end of a line within a text that was quoted.
var lineEnd = regexp.MustCompile(`\\+[nrt]`)

// severe masks the words that a Strict masker masks.
func (m *Masker) severe(s string) string {
	strict := Masker{Names: m.Names, Strict: true, longest: m.longestName()}
	return strict.words(s)
}

// backward masks what is said to be a secret only after it: "X is the password".
func (m *Masker) backward(s string) string {
	if !strings.Contains(s, "is ") && !strings.Contains(s, "was ") {
		return s
	}
	return announced.ReplaceAllStringFunc(s, func(text string) string {
		at := announced.FindStringSubmatch(text)
		word := strings.Trim(at[1], ".,;:!?()[]{}<>\"'`")
		if !m.sensitive(at[3]) || Vocabulary(word) || m.isName(word) {
			return text
		}
		return Mask + at[2] + at[3]
	})
}

var announced = regexp.MustCompile(`([^\s=:]{4,})(\s+(?:is|was)\s+(?:the|your|my|our|his|her|its|their|a|an)\s+(?:[a-z]{1,12}\s+)?)([A-Za-z]{3,20})\b`)

// separators are what stands between the columns of a table.
var separators = []*regexp.Regexp{regexp.MustCompile(`,`), regexp.MustCompile(`\|`), regexp.MustCompile(`;`), regexp.MustCompile(`\t`), regexp.MustCompile(` {2,}`)}

// columns masks the columns of a table that have the name of a secret above them.
func (m *Masker) columns(s string) string {
	if strings.IndexByte(s, '\n') < 0 {
		return s
	}
	lines := strings.Split(s, "\n")
	for i := 0; i+1 < len(lines); i++ {
		if len(lines[i]) > 400 {
			continue
		}
		for _, sep := range separators {
			if hidden := m.header(sep, lines[i]); hidden != nil {
				i += m.rows(sep, hidden, lines[i+1:])
				break
			}
		}
	}
	return strings.Join(lines, "\n")
}

var title = regexp.MustCompile(`^[\s:]*["']?[\p{L}_][\p{L}0-9_. -]{0,40}["']?\s*$`)

// header says which columns of a table with such a header are to be masked; nil: it is none, or it names no secret.
func (m *Masker) header(sep *regexp.Regexp, line string) []bool {
	titles := sep.Split(line, -1)
	if len(titles) < 2 {
		return nil
	}
	titles[0] = titles[0][strings.LastIndex(titles[0], ": ")+1:] // what says that a table comes
	hidden := make([]bool, len(titles))
	for i, t := range titles {
		if strings.TrimSpace(t) != "" && !title.MatchString(t) {
			return nil
		}
		hidden[i] = m.sensitive(strings.Trim(t, " \t\"'"))
	}
	if !slices.Contains(hidden, true) {
		return nil
	}
	return hidden
}

// rows masks the columns in the lines that belong to the table, and returns how many do.
func (m *Masker) rows(sep *regexp.Regexp, hidden []bool, lines []string) int {
	for n, line := range lines {
		cells := sep.FindAllStringIndex(line, -1)
		if len(cells)+1 != len(hidden) {
			return n
		}
		lines[n] = maskCells(line, cells, hidden)
	}
	return len(lines)
}

var underline = regexp.MustCompile(`^\s*:?-+:?\s*$`)

func maskCells(line string, seps [][]int, hidden []bool) string {
	var b strings.Builder
	from := 0
	for i := range hidden {
		to, next := len(line), len(line)
		if i < len(seps) {
			to, next = seps[i][0], seps[i][1]
		}
		cell := line[from:to]
		if text := strings.TrimSpace(cell); hidden[i] && text != "" && !underline.MatchString(cell) {
			cell = strings.Replace(cell, text, Mask, 1)
		}
		b.WriteString(cell + line[to:next])
		from = next
	}
	return b.String()
}
