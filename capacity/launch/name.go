package launch

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// NeedID is a name for what a machine is launched for: the last part of the need's name, for people, and a hash of all of it.
func NeedID(need string) string {
	sum := sha256.Sum256([]byte(need))
	_, short, found := strings.Cut(need, "/")
	if !found {
		short = need
	}
	short = strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-':
			return c
		case c >= 'A' && c <= 'Z':
			return c + 'a' - 'A'
		}
		return '-'
	}, short)
	short = strings.Trim(short[:min(len(short), 36)], "-")
	if short == "" || short[0] >= '0' && short[0] <= '9' {
		short = "m" + short
	}
	return short + "-" + hex.EncodeToString(sum[:4])
}

// name is that of the next machine for the need. It depends on the need alone, and on which machines for it exist: who is stopped
// after it wrote a machine down, and decides again without having seen it, gives the next one the same name, and cannot write it.
func (d *decider) name(need string) string {
	id := NeedID(need)
	for i := d.ordinals[need]; ; i++ {
		if name := id + "-" + strconv.Itoa(i); !d.taken[name] {
			d.ordinals[need] = i + 1
			return name
		}
	}
}
