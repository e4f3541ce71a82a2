package fit

import "strings"

// isLabelKey tells whether s is a label key: a name, or a DNS subdomain, a slash and a name.
func isLabelKey(s string) bool {
	prefix, name, cut := strings.Cut(s, "/")
	if !cut {
		prefix, name = "", s
	}
	if cut && !isSubdomain(prefix) {
		return false
	}
	return name != "" && isLabelValue(name)
}

// isLabelValue tells whether s is empty, or at most 63 letters, digits, '-', '_' and '.' that begin and
// end with a letter or digit.
func isLabelValue(s string) bool {
	if s == "" {
		return true
	}
	if len(s) > 63 || !isAlphanumeric(s[0]) || !isAlphanumeric(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if !isAlphanumeric(s[i]) && s[i] != '-' && s[i] != '_' && s[i] != '.' {
			return false
		}
	}
	return true
}

// isSubdomain tells whether s is parts of lower-case letters, digits and inner '-', joined by dots, at
// most 253 bytes in all. A part has no limit of its own.
func isSubdomain(s string) bool {
	if len(s) > 253 {
		return false
	}
	for part := range strings.SplitSeq(s, ".") {
		if part == "" || part[0] == '-' || part[len(part)-1] == '-' {
			return false
		}
		for i := range len(part) {
			if c := part[i]; c != '-' && (!isAlphanumeric(c) || 'A' <= c && c <= 'Z') {
				return false
			}
		}
	}
	return true
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
