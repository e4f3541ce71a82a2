package workload

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/api/resource"
)

// maxWorld bounds a collective far above any real one, so that a slip of the keyboard cannot
// ask for gigabytes of bookkeeping.
const maxWorld = 100_000

// What is allowed, where several annotations take the same.
const (
	aDuration = "a duration above zero such as 90s, 10m or 1h30m"
	aStep     = "a duration of at least 1ms such as 250ms or 2s"
	aCount    = "a whole number above zero such as 4096, 4M or 70G"
	aRate     = "a number a second above zero and at most 1000000, such as 0.5 or 40"
	aQuantity = "a quantity of bytes above zero such as 512Mi or 60Gi"
)

// errNotAllowed is all that a parser says: ParseSpec adds the key, the text and what is allowed.
var errNotAllowed = errors.New("not allowed")

// parser reads the text of an annotation into a Spec.
type parser = func(s *Spec, text string) error

func duration(lowest time.Duration, field func(*Spec) *time.Duration) parser {
	return func(s *Spec, text string) error {
		d, err := time.ParseDuration(text)
		if err != nil || d < lowest || d > maxDuration {
			return errNotAllowed
		}
		*field(s) = d
		return nil
	}
}

// maxDuration keeps sums of durations and their multiples by a clock's speed inside int64.
const maxDuration = 10 * 365 * 24 * time.Hour

func number(lowest, highest int, field func(*Spec) *int) parser {
	return func(s *Spec, text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n < lowest || n > highest {
			return errNotAllowed
		}
		*field(s) = n
		return nil
	}
}

func quantity(field func(*Spec) *int64) parser {
	return func(s *Spec, text string) error {
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return errNotAllowed
		}
		bytes, whole := q.AsInt64()
		if !whole || bytes <= 0 {
			return errNotAllowed
		}
		*field(s) = bytes
		return nil
	}
}

func rate(field func(*Spec) *float64) parser {
	return func(s *Spec, text string) error {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || !(n > 0 && n <= 1e6) { // not a number is neither
			return errNotAllowed
		}
		*field(s) = n
		return nil
	}
}

func flag(field func(*Spec) *bool) parser {
	return func(s *Spec, text string) error {
		if text != "true" && text != "false" {
			return errNotAllowed
		}
		*field(s) = text == "true"
		return nil
	}
}

func group(s *Spec, text string) error {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' }
	if text == "" || len(text) > 253 || strings.ContainsFunc(text, unprintable) {
		return errNotAllowed
	}
	s.Group = text
	return nil
}

var cudaVersion = regexp.MustCompile(`^[1-9][0-9]?\.[0-9]{1,2}$`)

func cuda(s *Spec, text string) error {
	if !cudaVersion.MatchString(text) {
		return errNotAllowed
	}
	s.CUDA = text
	return nil
}
